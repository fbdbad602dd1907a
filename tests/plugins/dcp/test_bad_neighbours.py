"""Neighbours that repeat, reject or misuse messages cost little, and leave nothing behind."""

from __future__ import annotations

from broker.testing.datagram_network import DatagramFaults
from plugins.dcp.control import Interest, Join
from plugins.dcp.event_range import SequenceKey
from plugins.dcp.settings import DcpSettings
from tests.simulation.dcp.mesh import ALL, Mesh, MeshNode

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
