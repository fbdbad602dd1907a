"""Events that a parent leaves out of a range: withheld, or dropped by a queue policy."""

from __future__ import annotations

import pytest

from broker.errors import ProtocolError
from broker.streams.contract import CarriedInterest
from broker.testing.datagram_network import DatagramFaults
from plugins.dcp.event_range import EventRange, decode_range
from plugins.dcp.omission import WITHHELD, drop_level
from plugins.dcp.settings import DcpSettings
from tests.plugins.dcp.connection_pipe import make_event, make_range
from tests.simulation.dcp.mesh import ALL, EVERYTHING, Mesh, MeshNode

FLOW = "o/asdi.>"
SMALL = 20_000


def test_omissions_survive_the_packet_and_divide_a_range() -> None:
    range_ = make_range(0, 12, 2, 3, 5, 9).omit({3: WITHHELD, 9: drop_level(1)})
    sent = decode_range(0, 12, 1, range_.body)
    assert sent.events == range_.events
    parts = [(part.previous, part.upto, part.omission is None) for part in sent.split_omissions()]
    assert parts == [(0, 2, True), (2, 3, False), (3, 8, True), (8, 9, False), (9, 12, True)]
    assert make_range(0, 12, 2).split_omissions() == [make_range(0, 12, 2)]


@pytest.mark.parametrize("level", [3, 0x11, 0x23, 0x40, 0x80])
def test_other_levels_and_omissions_with_a_document_are_malformed(level: int) -> None:
    for event in (make_event(2, level=level), make_event(2, level=WITHHELD)):
        with pytest.raises(ProtocolError):
            decode_range(0, 5, 1, EventRange.of_events(0, 5, [event]).body)


# ------------------------------------------------------------------ queue policies in a mesh


def make_mesh(queue: str, *room: int, children: int = 100) -> tuple[Mesh, MeshNode]:
    """Return a mesh of roots whose buffers have room, and a leaf with a subscription."""
    roots = [f"root{n}" for n in range(len(room))]
    mesh = Mesh(1, DcpSettings(parents=len(room)), DatagramFaults(), roots)
    for name, size in zip(roots, room, strict=True):
        mesh.add_root(name, send_bytes=size, children=children)
    leaf = mesh.add("leaf")
    leaf.subscribe("s", CarriedInterest(ALL.pattern, EVERYTHING, {}, queue))
    mesh.time.run_until(lambda: len(leaf.router.parents.paths) == len(room))
    mesh.publish(FLOW, 1, [1])
    mesh.run(1.0)
    return mesh, leaf


def publish_burst(mesh: Mesh) -> None:
    mesh.publish(FLOW, 1, list(range(2, 202)), size=1_000)
    mesh.run(10.0)
    mesh.check_ends()
    assert not mesh.violations


@pytest.mark.parametrize("queue", ["drop-oldest", "drop-newest", "coalesce"])
def test_events_beyond_the_buffer_are_dropped_and_counted(queue: str) -> None:
    mesh, leaf = make_mesh(queue, SMALL)
    publish_burst(mesh)
    assert leaf.dropped > 50 and leaf.dropped + leaf.received == 201
    # Nothing is taken for lost.
    assert leaf.router.nacks == 0 and not mesh.gaps


def test_what_another_parent_has_is_not_dropped() -> None:
    mesh, leaf = make_mesh("drop-oldest", SMALL, 4 << 20)
    publish_burst(mesh)
    assert (leaf.dropped, leaf.received, mesh.gaps) == (0, 201, [])


def test_without_a_common_policy_the_log_brings_what_does_not_fit() -> None:
    mesh, leaf = make_mesh("drop-oldest", SMALL)
    leaf.subscribe("durable", ALL)
    mesh.run(2.0)
    publish_burst(mesh)
    assert leaf.dropped == 0 and mesh.gaps


def test_drops_are_passed_on_down_the_mesh() -> None:
    mesh, leaf = make_mesh("drop-newest", SMALL, children=1)
    below = mesh.add("below")
    below.subscribe("s", CarriedInterest(ALL.pattern, EVERYTHING, {}, "drop-newest"))
    mesh.time.run_until(lambda: bool(below.router.parents.paths), 30.0)
    assert [each.candidate.name for each in below.router.parents] == ["leaf"]
    publish_burst(mesh)
    assert below.dropped == leaf.dropped > 50 and not mesh.gaps
