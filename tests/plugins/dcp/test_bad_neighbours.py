"""Neighbours that repeat, reject or misuse messages cost little, and leave nothing behind."""

from __future__ import annotations

from broker.testing.datagram_network import DatagramFaults
from plugins.dcp.control import Interest, Join, to_query
from plugins.dcp.event_range import SequenceKey
from plugins.dcp.settings import DcpSettings
from tests.simulation.dcp.mesh import ALL, Mesh, MeshNode, modulo

FLOW = "o/asdi.>"


def make_pair(loss: float = 0.0, **settings: int) -> tuple[Mesh, MeshNode, MeshNode]:
    """Return a mesh of a root and a leaf, which has its parent."""
    mesh = Mesh(3, DcpSettings(parents=1), DatagramFaults(loss=loss), ["a"])
    root, leaf = mesh.add_root("a"), mesh.add("c", **settings)
    leaf.subscribe("s", ALL)
    mesh.time.run_until(lambda: bool(leaf.router.parents.paths))
    return mesh, root, leaf


def test_a_sequence_that_a_child_rejects_is_not_repeated() -> None:
    """The child has another pattern, so it knows no sequence of the parent."""
    mesh, root, leaf = make_pair()
    leaf.patterns.clear()
    for an in range(1, 501):
        mesh.publish(FLOW, 1, [an], size=1_000)
        mesh.run(0.002)
    sent = root.sent_bytes
    mesh.run(60.0)
    assert leaf.router.rejected > 0
    assert root.sent_bytes - sent < 100_000


def test_a_second_join_on_one_connection_ends_it_with_all_its_interest() -> None:
    mesh, root, leaf = make_pair()
    (connection,) = [each.connection for each in leaf.router.parents]
    connection.send_control(Join("c", 0), Interest(9, ()))
    leaf.changed()
    mesh.run(0.5)
    assert root.router.rejected == 1
    # The leaf has joined again, with one interest.
    mesh.run(5.0)
    assert [len(child.keys) for child in root.router.children] == [1]
    assert root.count_interest() == 1


def test_an_old_epoch_is_not_requested_after_its_place_was_given_to_a_newer_one() -> None:
    mesh, _, leaf = make_pair()
    mesh.publish(FLOW, 1, [1])
    mesh.run(0.1)
    drops = mesh.datagrams
    drops.filter = lambda data, source, target: source != "a"
    mesh.publish(FLOW, 1, [2])
    mesh.run(0.01)
    drops.filter = lambda *_: True
    mesh.publish(FLOW, 1, [3])
    mesh.run(0.002)
    for epoch in (2, 3):
        mesh.publish(FLOW, epoch, [3])
        mesh.run(0.002)
    assert leaf.router.sequences.get(SequenceKey(FLOW, 1)) is None
    nacks = leaf.router.nacks
    mesh.run(5.0)
    assert leaf.router.nacks == nacks
    assert leaf.positions[FLOW] == (3, 3)


# ------------------------------------------------------------------ refused queries


def alarms_of(node: MeshNode) -> list[str]:
    return [each for each in node.router.alarms.present if "refuses" in each or "ended" in each]


def test_a_query_that_a_parent_refuses_is_requested_as_everything() -> None:
    mesh, root, leaf = make_pair()
    parent = next(iter(leaf.router.parents))
    odd = modulo(2, 1)
    root.bad_queries.add(odd.query)
    leaf.unsubscribe("s")
    for key, interest in (("odd", odd), ("third", modulo(3, 0))):
        leaf.subscribe(key, interest)
    mesh.run(3.0)
    assert alarms_of(leaf) == [
        f"the parent a refuses the query {odd.query}: bad-query; all events of asdi.> are "
        "requested instead"
    ]
    assert [text for _, text in leaf.reported if "refuses" in text] == alarms_of(leaf)
    mesh.publish(FLOW, 1, list(range(1, 20)))
    mesh.run(1.0)
    # The connection is the same, and the checks of the mesh find no event missing.
    assert list(leaf.router.parents) == [parent]
    assert leaf.positions[FLOW] == (1, 19) and not mesh.violations
    leaf.unsubscribe("odd")
    mesh.run(2.0)
    assert alarms_of(leaf) == [] and leaf.router.parents.queries == {to_query(modulo(3, 0))}


def test_a_child_whose_interest_is_refused_as_a_whole_asks_ever_less_often() -> None:
    mesh, root, leaf = make_pair()
    mesh.kill("a")
    mesh.run(10.0)
    root = mesh.add_root("a")
    root.bad_queries.add(ALL.query)
    mesh.run(20.0)
    before = root.router.rejected
    mesh.run(60.0)
    assert 12 <= root.router.rejected - before <= 20
    assert not leaf.router.parents.paths
    # As soon as it is accepted, the node has its parent, and the next waits are short again.
    root.bad_queries.clear()
    mesh.run(6.0)
    assert len(leaf.router.parents.paths) == 1


def test_a_child_that_repeats_a_refused_query_is_closed() -> None:
    mesh, root, leaf = make_pair()
    root.bad_queries.add(modulo(2, 1).query)
    (connection,) = [each.connection for each in leaf.router.parents]
    bad = to_query(modulo(2, 1))
    for epoch in range(10, 111):
        connection.send_control(Interest(epoch, (bad,)))
    leaf.changed()
    mesh.run(1.0)
    assert root.router.rejected == 101
    assert connection.error == "rejected: bad-query" and alarms_of(leaf)
