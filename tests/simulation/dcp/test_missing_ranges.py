"""Ranges that no parent brings, and connections with loss in one direction."""

from __future__ import annotations

from broker.testing.datagram_network import DatagramFaults
from plugins.dcp.packet import STREAM
from plugins.dcp.settings import DcpSettings
from tests.simulation.dcp.mesh import ALL, Mesh

FLOW = "o/asdi.>"


def make_mesh() -> Mesh:
    mesh = Mesh(4, DcpSettings(), DatagramFaults(), ["a1", "a2"])
    for name in mesh.roots:
        mesh.add_root(name)
    mesh.add("c").subscribe("s", ALL)
    mesh.run(3.0)
    return mesh


def lose_range(mesh: Mesh, *lost: int) -> None:
    """Let each packet of these ANs be lost, and each answer to a request."""
    ends = {an.to_bytes(8, "big") for an in lost}

    def passes(datagram: bytes, source: object, target: object) -> bool:
        is_control = bool(int.from_bytes(datagram[:2], "big") & STREAM)
        return target != "c" or is_control or datagram[4:12] not in ends

    mesh.datagrams.filter = passes


def test_the_patience_with_several_missing_ranges_is_not_one_after_another() -> None:
    mesh = make_mesh()
    lost = (21, 23, 25, 27, 29)
    lose_range(mesh, *lost)
    for an in range(1, 61):
        mesh.publish(FLOW, 1, [an])
        mesh.run(0.1)
    mesh.run(3.0)
    assert [gap.upto[1] for gap in mesh.gaps] == list(lost)
    # The last one is missing 0.8 s after the first one, and given up so much later.
    assert mesh.gaps[-1].time - mesh.gaps[0].time < 1.2
    assert max(mesh.latencies) < 2.5
    assert mesh.violations == []


def test_the_end_of_a_stream_that_no_parent_brings_is_reported_without_a_later_event() -> None:
    mesh = make_mesh()
    for an in range(1, 11):
        mesh.publish(FLOW, 1, [an])
        mesh.run(0.1)
    lose_range(mesh, 11)
    mesh.publish(FLOW, 1, [11])
    mesh.run(20.0)
    assert [(gap.after, gap.upto) for gap in mesh.gaps] == [((1, 10), (1, 11))]
    mesh.check_ends()
    assert mesh.violations == []


def test_loss_in_one_direction_ends_no_living_connection() -> None:
    mesh = make_mesh()
    leaf, random = mesh.nodes["c"], mesh.random
    mesh.datagrams.filter = lambda data, source, target: target != "c" or random.random() < 0.5
    mesh.run(20.0)
    connections = [parent.connection for parent in leaf.router.parents]
    assert len(connections) == 2
    mesh.run(600.0)
    assert [parent.connection for parent in leaf.router.parents] == connections
