"""Short runs of the experiments of the RCM paper (R37, R38, R40-R43; A8, A9, A11, A12, K37)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import product

import pytest

from benchmarks.harness.measured_nodes import Portion
from benchmarks.rcm import Floors, Results, report
from benchmarks.sites import awareness, fan_out, long_run, rate, reliability, restarts, variants
from benchmarks.sites.fan_out import FanOut
from benchmarks.sites.finding import Finding
from benchmarks.sites.group import SiteGroup, SiteSetting
from benchmarks.sites.messages import MessageRun
from benchmarks.sites.record import Status, share_not_disconnected
from benchmarks.sites.reliability import LAYERS
from benchmarks.sites.streams import COMPARED, StreamRun
from benchmarks.sites.suspended import Suspended
from broker.transport.order import VARIANTS
from broker.transport.view import LinkState


@pytest.fixture(scope="module")
def results() -> Results:
    return Results(
        awareness.measure(120.0),
        [
            reliability.measure(layer, down, 80.0)
            for layer, down in [("robust-p2p", 60.0), ("tcp", 0.0), *product(LAYERS, (15.0,))]
        ],
        rate.measure(False, 80.0),
        rate.measure(True, 80.0),
        restarts.measure(2),
        long_run.measure(0.3),
        [
            variants.measure(name, each, {2.0: 30.0, 200.0: 0.5}[each])
            for name in VARIANTS
            for each in variants.RATES
        ],
    )


def missed(findings: Sequence[Finding], *without: str) -> list[Finding]:
    return [each for each in findings if not each.is_met and each.what not in without]


@pytest.mark.soak
def test_sites_are_aware_of_lost_and_repaired_links(results: Results) -> None:
    assert missed(awareness.findings(results.awareness)) == []
    assert min(results.awareness.suspected) >= 4.0
    assert len(results.awareness.suspected) == len(results.awareness.back) >= 3 * 4 * 2


@pytest.mark.soak
def test_robust_p2p_loses_nothing_and_the_baselines_do(results: Results) -> None:
    assert missed(reliability.findings(results.reliability)) == []
    lost = {(each.layer, each.down): each.lost for each in results.reliability}
    assert lost["robust-p2p", 60.0] == lost["tcp", 0.0] == 0
    assert 0 < lost["tcp-suspected", 15.0] < lost["tcp", 15.0]


@pytest.mark.soak
def test_rate_and_latency_follow_the_links(results: Results) -> None:
    found = rate.findings(results.rate, results.rate_with_answers)
    # The short run has few messages.
    assert missed(found, "down: rate after the burst") == []
    for each in (results.rate, results.rate_with_answers):
        assert each.down_rate == pytest.approx(4.0, rel=0.15)
        assert each.late > 0


@pytest.mark.soak
def test_sites_connect_soon_after_links_and_sites_were_restless(results: Results) -> None:
    assert missed(restarts.findings(results.restarts)) == []
    assert results.restarts.restarts > 2


@pytest.mark.soak
def test_the_availability_of_a_long_run_is_that_of_its_schedule(results: Results) -> None:
    found = results.long_run
    assert found.availability == pytest.approx(found.implied, abs=0.03)
    assert found.links_up < found.availability < 1.0
    assert found.errors == []


@pytest.mark.soak
def test_latencies_of_the_variants(results: Results) -> None:
    assert missed(variants.findings(results.variants)) == []
    means = {(each.variant, each.rate): each.mean for each in results.variants}
    assert means["real-time", 2.0] == pytest.approx(0.25, abs=0.001)


@pytest.mark.soak
def test_the_report_counts_missed_figures(results: Results) -> None:
    runs = [
        StreamRun(
            use,
            [Portion(1_000, factor * seconds, [0.1, 0.2, 0.3], 0) for seconds in (1.0, 2.0, 3.0)],
        )
        for use, factor in (("mspaces", 1.0), ("rcm", 1.25), (COMPARED, 2.0))
    ]
    fan_outs = [
        FanOut(name, size, sent, 100, 2.0)
        for size in fan_out.SIZES
        for name, sent in (("copies", 1000), ("tree", 490), ("group", 260))
    ]
    messages = [
        MessageRun(kind, 400, seconds, 0.4, 400_000, 0)
        for kind, seconds in (("plain", 1.0), ("rcm", 1.6))
    ]
    suspected = Suspended(5.0, [1.0, 40.0])
    floors = Floors(runs, messages, suspected, results.awareness, fan_outs)
    told = report(results, floors, 1.0, quick=False)
    assert [each.is_met for each in told.floors] == [True, False, False, False, True, False]
    assert told.floors[0].value == pytest.approx(0.8)
    assert told.floors[1].value == pytest.approx(0.625)
    assert told.sheets[1].rows[1][:4] == ["rcm", "400", "267-800", "100.0"]
    verdicts = [row[-1] for row in told.sheets[0].rows]
    assert verdicts.count("MISSED") == (
        0 if told.notes[0].startswith("all") else int(told.notes[0].split()[0])
    )
    assert verdicts.count("PASS") > 25
    quick = report(results, floors, 1.0, quick=True).sheets[0].rows
    assert {row[-1] for row in quick} == {"", "means nothing"}


def test_fan_outs_keep_their_floors_and_deliver_without_delay() -> None:
    runs = fan_out.measure_all(30)
    assert [each.what for each in fan_out.make_floors(runs) if not each.is_met] == []
    assert all(each.delay < 1.5 * (2 if each.fan_out == "tree" else 1) + 0.2 for each in runs)
    assert len(fan_out.make_sheet(runs).rows) == len(runs)


@pytest.mark.parametrize(
    ("variant", "commit"),
    [
        ("hybrid", 0.02),
        *(
            pytest.param(each, 0.02, marks=pytest.mark.soak)
            for each in VARIANTS
            if each != "hybrid"
        ),
        pytest.param("hybrid", 0.0, marks=pytest.mark.soak),
    ],
)
def test_sites_that_send_all_the_time_connect(variant: str, commit: float) -> None:
    setting = SiteSetting(
        variant=variant, rate=200.0, commit=commit, latency=0.05, bytes_per_second=1.25e6
    )
    group = SiteGroup(setting, 1)
    group.run(2.5)
    assert group.is_connected()
    assert group.record.errors == []


def test_only_times_in_which_a_site_is_disconnected_lower_the_availability() -> None:
    statuses = [
        Status(time, "a", "b", state, "")
        for time, state in (
            (1.0, LinkState.CONNECTED),
            (20.0, LinkState.SUSPECTED),
            (40.0, LinkState.DISCONNECTED),
            (50.0, LinkState.CONNECTED),
        )
    ]
    assert share_not_disconnected(statuses, 5.0, 105.0) == pytest.approx(0.9)


def test_the_verdict_of_a_figure() -> None:
    def verdict(least: float | None, most: float | None) -> tuple[str, str]:
        found = Finding("x", "y", 5.0, "s", least=least, most=most)
        return found.bound, found.verdict

    assert verdict(None, None) == ("", "")
    assert verdict(4.0, None) == (">= 4 s", "PASS")
    assert verdict(None, 4.0) == ("<= 4 s", "MISSED")
    assert verdict(5.0, 6.0) == ("5 to 6 s", "PASS")
    assert verdict(5.0, 5.0) == ("5 s", "PASS")


@pytest.mark.slow
@pytest.mark.soak
def test_sites_over_tcp_are_aware_of_a_lost_link() -> None:
    result = asyncio.run(awareness.measure_over_tcp(20.0))
    assert missed(awareness.findings(result)) == []
    assert min(result.suspected) >= 4.0
    assert len(result.suspected) == 8
