from __future__ import annotations

import pytest

from benchmarks.meshes import ahead, content, latency, tiers
from benchmarks.meshes.latency import LatencyPoint
from benchmarks.meshes.mesh_node import LinkLoss
from benchmarks.meshes.tiers import TierPoint
from benchmarks.meshes.virtual_mesh import VirtualMesh


def test_a_lost_link_brings_nothing_and_the_other_one_all() -> None:
    mesh = VirtualMesh(1, 0.01)
    for name in ("root0", "root1"):
        mesh.add(name)
    client = mesh.add_client(("root0", "root1"))
    mesh.begin()
    mesh.lose(1.0, [("root0", "client")])
    before = client.router.parents.paths
    counts = {each.name: each.first + each.duplicate for each in before.values()}
    ans = mesh.publish_paced(5, 0.01)
    mesh.run(0.1)
    assert mesh.latencies("client", ans) == pytest.approx([0.0105] * 5)
    after = {each.name: each.first + each.duplicate for each in before.values()}
    assert after["root0"] == counts["root0"]
    assert after["root1"] == counts["root1"] + 5


def test_losses_of_links_are_independent_and_repeatable() -> None:
    def draw(seed: str) -> list[bool]:
        loss = LinkLoss(0.3, seed)
        return [loss.is_lost() for _ in range(1_000)]

    assert draw("a") == draw("a") != draw("b")
    assert 240 < sum(draw("a")) < 360
    both = sum(one and other for one, other in zip(draw("a"), draw("b"), strict=True))
    assert 60 < both < 120


def test_the_erasure_bound_of_the_paper() -> None:
    assert tiers.erasure_share(0.1) == pytest.approx(0.9639)
    assert tiers.erasure_share(0.3) == pytest.approx(0.7399)
    assert tiers.erasure_share(0.0) == 1.0


def test_the_added_mean_is_over_that_of_the_same_mesh_without_loss() -> None:
    means = {(1, 0.0): 3.0, (2, 0.0): 4.0, (3, 0.0): 5.0, (1, 0.1): 13.0, (2, 0.1): 6.5}
    points = [
        LatencyPoint(*key, mean=mean, p99=2 * mean, events=100, delivered=99, nacks=1)
        for key, mean in means.items()
    ]
    points.append(LatencyPoint(3, 0.1, mean=5.0, p99=14.0, events=100, delivered=100, nacks=0))
    one, two, ratio, p99 = latency.findings(points)
    assert (one.value, two.value, p99.value) == (10.0, 2.5, 4.0)
    assert (ratio.verdict, p99.verdict) == ("MISSED", "PASS")
    assert latency.make_sheet(points).rows[3] == ("1", "10%", "13.00", "10.00", "26.00", "1", "1")


def test_the_share_that_arrives_is_set_against_the_erasure_code() -> None:
    points = [
        TierPoint(loss, 1_000, arrived, 21.0, 5, 0)
        for loss, arrived in ((0.0, 1_000), (0.1, 1_000), (0.3, 985))
    ]
    bound, high, _ = tiers.findings(points)
    assert (bound.value, bound.verdict) == (0.0, "PASS")
    assert (high.value, high.verdict) == (98.5, "MISSED")
    assert tiers.make_sheet(points).rows[2][1:5] == ("2,345", "98.50 %", "1,762", "73.99 %")


def test_two_tiers_bring_all_chunks_at_a_tenth_loss() -> None:
    found = tiers.measure(0.1, 50)
    assert (found.arrived, found.lost_parents) == (50, 0)


def test_latency_grows_with_loss_and_not_with_three_parents() -> None:
    points = [latency.measure(1, loss, 100) for loss in (0.0, 0.1)]
    points += [latency.measure(3, loss, 50) for loss in (0.0, 0.1)]
    # A tenth waits for the next event, 110 ms, at the least.
    assert latency.added_mean(points, 1, 0.1) > 5.0
    assert latency.added_mean(points, 3, 0.1) == pytest.approx(0.0, abs=0.001)
    assert all(each.delivered == each.events for each in points)


def test_dynamic_content_and_acknowledgements_ahead_save_bytes() -> None:
    (share,) = content.findings([content.measure(each, 200) for each in ("dynamic", "static")])
    assert share.verdict == "PASS"
    runs = [ahead.measure(is_ahead, 60) for is_ahead in (True, False)]
    assert ahead.findings(runs)[0].verdict == "PASS"
    assert {each.early for each in runs} == {60}
