"""Settings of a node in a mesh: fixed parents, refused interest, targets of requests."""

from __future__ import annotations

from unittest.mock import patch

from broker.testing.datagram_network import DatagramFaults
from plugins.dcp.settings import DcpSettings
from tests.simulation.dcp.mesh import ALL, Mesh, modulo

FLOW = "o/asdi.>"


def make_mesh(*, widens: bool) -> Mesh:
    """Return a mesh of a root with a router, and a leaf that is refused at the root."""
    mesh = Mesh(2, DcpSettings(parents=1, widens=widens), DatagramFaults(), ["a"])
    mesh.add_root("a", children=1)
    mesh.add("b").subscribe("s", modulo(2, 0))
    mesh.run(4.0)
    return mesh


def test_a_router_that_may_not_widen_refuses_other_interest() -> None:
    mesh = make_mesh(widens=False)
    same, other = mesh.add("c1"), mesh.add("c2")
    same.subscribe("s", modulo(2, 0))
    other.subscribe("s", ALL)
    mesh.run(10.0)
    assert len(same.router.parents.paths) == 1
    assert len(other.router.parents.paths) == 0
    other.unsubscribe("s")
    other.subscribe("t", modulo(2, 0))
    mesh.time.run_until(lambda: len(other.router.parents.paths) == 1, 20.0)


def test_a_router_that_may_widen_requests_it_first() -> None:
    mesh = make_mesh(widens=True)
    leaf = mesh.add("c1")
    leaf.subscribe("s", ALL)
    mesh.time.run_until(lambda: leaf.subscriptions["s"].start is not None, 20.0)
    mesh.publish(FLOW, 1, [1, 2, 3])
    mesh.run(1.0)
    mesh.check_ends()
    assert mesh.violations == []


def test_a_missing_range_may_be_requested_of_one_parent_first() -> None:
    resent: dict[bool, int] = {}
    for asks_all in (True, False):
        mesh = Mesh(2, DcpSettings(asks_all=asks_all), DatagramFaults(), ["a1", "a2"])
        for name in mesh.roots:
            mesh.add_root(name)
        leaf = mesh.add("c")
        leaf.subscribe("s", ALL)
        mesh.run(3.0)
        for an in range(1, 101):
            # Each tenth event is lost on both links.
            mesh.datagrams.filter = lambda *_, lost=an % 10 == 0: not lost
            mesh.publish(FLOW, 1, [an])
            mesh.run(0.004)
            mesh.datagrams.filter = lambda *_: True
            mesh.run(0.016)
        mesh.run(2.0)
        mesh.check_ends()
        assert mesh.violations == [] and mesh.gaps == []
        roots = [mesh.nodes[name].router for name in mesh.roots]
        resent[asks_all] = sum(
            child.connection.buffer.repaired for root in roots for child in root.children
        )
    assert resent[False] <= 0.6 * resent[True]


def test_more_queries_than_a_message_has_room_for_are_requested_as_everything() -> None:
    with patch("plugins.dcp.control.MOST_QUERIES", 5):
        mesh = make_mesh(widens=True)
        leaf = mesh.add("c1")
        for number in range(2, 10):
            leaf.subscribe(f"s{number}", modulo(number, 1))
        mesh.time.run_until(lambda: bool(leaf.router.parents.paths), 20.0)
        assert {query for _, query, _ in leaf.router.parents.queries} == {"true()"}
        for number in range(2, 7):
            leaf.unsubscribe(f"s{number}")
        assert len(leaf.router.parents.queries) == 3
        mesh.publish(FLOW, 1, list(range(1, 30)))
        mesh.run(2.0)
        mesh.check_ends()
        assert mesh.violations == []
