"""Alarms about redundancy that is not there (N1, N8, D99)."""

from __future__ import annotations

from unittest.mock import patch

import attrs
import pytest

from broker.streams.contract import FlowBatch
from broker.testing.datagram_network import DatagramFaults
from plugins.dcp.connection import Connection
from plugins.dcp.mesh.selection import Candidate
from plugins.dcp.packet import ACK, KEEPALIVE, RETX, STREAM
from plugins.dcp.settings import DcpSettings
from tests.simulation.dcp.mesh import ALL, Mesh, MeshNode

_ROOTS = ["a1", "a2"]


def make_mesh(loss: float, *, routers: int = 2, **diversity: dict[str, str]) -> Mesh:
    """Return a mesh of two roots, routers that fill them, and a leaf with two parents."""
    mesh = Mesh(1, DcpSettings(), DatagramFaults(loss=loss), _ROOTS)
    for name in _ROOTS:
        mesh.add_root(name, children=routers or 1)
    for number in range(1, routers + 1):
        mesh.add(f"b{number}", diversity=diversity.get(f"b{number}", {}))
    mesh.run(4.0)
    mesh.add("c1", children=0).subscribe("s", ALL)
    mesh.time.run_until(lambda: len(parents_of(mesh.nodes["c1"])) == 2, 30.0)
    return mesh


def parents_of(node: MeshNode) -> list[str]:
    return [parent.candidate.name for parent in node.router.parents]


def wait_for(mesh: Mesh, sentence: str, limit: float) -> None:
    """Wait until the leaf reports an alarm with a sentence."""
    leaf = mesh.nodes["c1"]
    mesh.time.run_until(lambda: any(sentence in text for _, text in leaf.reported), limit)


@pytest.mark.parametrize(
    ("loss", "routers", "limit"), [(0.01, 0, 6.0), (0.2, 0, 15.0), (0.2, 2, 25.0)]
)
def test_a_path_that_carries_nothing_is_named(loss: float, routers: int, limit: float) -> None:
    """The parent still answers keep-alives, and its events and beacons do not come."""
    mesh = make_mesh(loss, routers=routers)
    mesh.run(10.0)
    mesh.nodes["c1"].reported.clear()
    mesh.run(120.0)
    assert mesh.nodes["c1"].reported == []
    dead = parents_of(mesh.nodes["c1"])[0]

    def passes(datagram: bytes, source: object, target: object) -> bool:
        is_answer = int.from_bytes(datagram[:2], "big") & (ACK | KEEPALIVE)
        return bool(is_answer) or (source, target) != (dead, "c1")

    mesh.datagrams.filter = passes
    wait_for(mesh, f"nothing of a root comes through the parent {dead}", limit)


def test_the_loss_of_a_root_without_another_one_is_reported() -> None:
    mesh = make_mesh(0.0)
    mesh.kill("a1")
    wait_for(mesh, "resilience is 0, below the 1 of 2 parents", 30.0)


def test_parents_that_fail_together_are_reported() -> None:
    mesh = make_mesh(0.0, b1={"uplink": "isp-a"}, b2={"uplink": "isp-a", "host": "rack2"})
    wait_for(mesh, "one failure cuts this node off: uplink isp-a", 5.0)
    wait_for(mesh, "the parents b1 and b2 share the uplink isp-a", 5.0)


def test_a_mesh_with_one_root_has_a_single_failure() -> None:
    mesh = Mesh(1, DcpSettings(), DatagramFaults(), ["a1"])
    for name in ("a1", "b1", "b2", "c1"):
        mesh.add_root(name) if name == "a1" else mesh.add(name)
        mesh.run(1.0)
    wait_for(mesh, "one failure cuts this node off: node a1", 10.0)


def test_a_circle_by_a_false_level_is_opened_and_reported() -> None:
    """A router with children asks its own child for a place, as if it had no level."""
    mesh = Mesh(1, DcpSettings(), DatagramFaults(), _ROOTS)
    for name in (*_ROOTS, "b1", "c1"):
        mesh.add_root(name, children=1) if name in _ROOTS else mesh.add(name)
        mesh.run(4.0)
    router, child = mesh.nodes["b1"].router, mesh.nodes["c1"]
    assert "b1" in parents_of(child)

    def confirm_any(connection: Connection, candidate: Candidate, now: float) -> None:
        router.parents.add(connection, candidate, now)
        connection.send_control(router.parents.interest)

    with (
        patch.object(router.membership, "_fixed_level", None),
        patch.object(router.membership.search, "_confirm", confirm_any),
        patch.object(router.membership, "_count_missing", lambda: 1),
        patch.object(router.membership.search, "_count_missing", lambda: 1),
    ):
        router.membership.search.refused("a1", "capacity", ["c1"], mesh.now)
        router.membership.search._try_at = mesh.now
        mesh.nodes["b1"].changed()
        mesh.time.run_until(lambda: "c1" in parents_of(mesh.nodes["b1"]), 10.0)
    mesh.time.run_until(lambda: "c1" not in parents_of(mesh.nodes["b1"]), 5.0)
    assert router.membership.cycles == 1
    mesh.run(2.0)
    reported = [text for _, text in mesh.nodes["b1"].reported]
    assert any("in the path of its parent c1: a circle" in text for text in reported)


def test_roots_that_disagree_are_named_with_the_event() -> None:
    """The second root has another document at a place of the origin's log."""
    mesh = make_mesh(0.0)
    mesh.publish("o/asdi.>", 1, [1])
    mesh.run(1.0)
    router, publish = mesh.nodes["a2"].router, mesh.nodes["a2"].router.publish

    def publish_other(batch: FlowBatch) -> None:
        events = [each._replace(document=b"other") for each in batch.events]
        publish(attrs.evolve(batch, events=events))

    with patch.object(router, "publish", publish_other):
        mesh.publish("o/asdi.>", 1, [5])
        mesh.run(3.0)
    reported = [text for node in mesh.live for _, text in node.reported]
    assert any(text.startswith("roots disagree about o/asdi.> 1:5") for text in reported)


def publish_slowly(mesh: Mesh, ans: range) -> None:
    for an in ans:
        mesh.publish("o/asdi.>", 1, [an])
        mesh.run(0.02)
    mesh.run(8.0)


def test_losses_of_one_parent_are_saved_by_the_other_one() -> None:
    mesh = make_mesh(0.05)
    mesh.run(30.0)
    leaf = mesh.nodes["c1"]
    leaf.reported.clear()
    publish_slowly(mesh, range(1, 301))
    assert leaf.reported == []
    joint = leaf.router.parents.losses
    connections = [each.connection for each in leaf.router.parents]
    singles = [joint.count([each], connections) for each in connections]
    both = joint.count(connections).lost
    assert both <= 5
    # The other one has brought each event that only one has lost.
    for connection, (samples, lost) in zip(connections, reversed(singles), strict=True):
        assert samples > 250 and 4 <= lost <= 30
        assert connection.path.saved_losses == lost - both


def test_losses_that_both_parents_share_are_an_alarm() -> None:
    mesh = make_mesh(0.0)
    leaf = mesh.nodes["c1"]

    def passes(datagram: bytes, source: object, target: object) -> bool:
        """Drop the same events on both links, as a failing uplink does."""
        is_event = not int.from_bytes(datagram[:2], "big") & (ACK | KEEPALIVE | STREAM | RETX)
        an = int.from_bytes(datagram[4:12], "big")
        return not (is_event and target == "c1" and an % 50 == 0)

    mesh.datagrams.filter = passes
    publish_slowly(mesh, range(1, 701))
    wait_for(mesh, "the parents b1 and b2 lose events together: 2%, and 0.04%", 5.0)
    (name, other) = [each.connection.path for each in leaf.router.parents]
    assert name.saved_losses == other.saved_losses == 0


@pytest.mark.soak
@pytest.mark.parametrize("routers", [0, 2])
def test_no_alarm_is_false_in_24_hours_at_20_percent_loss(routers: int) -> None:
    """With routers each path has two hops."""
    mesh = make_mesh(0.2, routers=routers)
    leaf = mesh.nodes["c1"]
    mesh.run(60.0)
    leaf.reported.clear()
    mesh.run(24 * 3600.0)
    assert leaf.reported == []
    assert sorted(parents_of(leaf)) == (["b1", "b2"] if routers else _ROOTS)
