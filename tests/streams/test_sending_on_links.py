"""Messages on links of transports over connections, with and without room."""

from __future__ import annotations

import attrs

from broker.config import Settings
from broker.testing.memory_connections import link_place
from broker.transport.layer import ILayer
from broker.transport.message import Outcome
from broker.transport.stacks import StackSettings
from plugins.mspaces.stack import MspacesStack
from tests.streams.link_ends import PORT, End, Wire, check_traffic, linked


def test_messages_beyond_the_room_of_a_link_are_dropped() -> None:
    wire, ends, links = linked("b", "")
    wire.cut(*ends, refuse=True)
    message = bytes(1 << 20)
    for _ in range(20):
        links[0].send([message], [ends[1].address])
    assert 10 < links[0].dropped < 20
    wire.heal(*ends)
    wire.run(0.9)
    assert len(ends[1].received) + links[0].dropped == 20


def test_each_message_has_an_outcome_for_each_peer() -> None:
    wire, ends, links = linked("bc", "", "")
    there, full, unknown = ends[1].address, ends[2].address, ("10.0.0.9", PORT)
    wire.cut(ends[0], ends[2], refuse=True)
    while links[0].send([bytes(1 << 20)], [full]) == [{full: Outcome.SENT}]:
        pass
    sent = links[0].send([b"x", b"y"], [there, full, unknown])
    assert sent == [{there: Outcome.SENT, full: Outcome.FULL, unknown: Outcome.ABSENT}] * 2
    assert links[0].dropped == 5
    wire.run(1.0)
    assert ends[1].received == [(ends[0].address, b"x"), (ends[0].address, b"y")]


def test_a_message_that_is_too_large_is_dropped_and_the_link_stays() -> None:
    settings = Settings()
    limits = attrs.evolve(settings.limits, max_frame_bytes=1 << 16, max_event_bytes=1 << 16)
    small = attrs.evolve(settings, limits=limits)
    wire = Wire()
    ends = [End(wire, name, settings=small) for name in "ab"]
    links = [end.open() for end in ends]
    links[0].add_peer(ends[1].address)
    wire.run(3.0)
    links[0].send([bytes((1 << 18) + 1)], [ends[1].address])
    assert links[0].dropped == 1
    check_traffic(wire, ends, links)


def test_a_receiver_that_is_slow_stops_the_sender() -> None:
    """Messages that are not read fill the link, and are dropped beyond its room."""
    wire, ends, links = linked("b", "")
    (path,) = [
        wire.network.path(link_place(ends[1].address), link_place(ends[0].address)),
    ]
    wire.network.set_delay(path, 1.0)
    for _ in range(100):
        links[0].send([bytes(1 << 18)], [ends[1].address])
    assert links[0].dropped > 50
    wire.run(30.0)
    assert len(ends[1].received) + links[0].dropped == 100
    check_traffic(wire, ends, links)


def test_a_link_stack_without_layers_is_bounded_by_the_socket() -> None:
    wire = Wire()
    ends = [End(wire, name, link_stack=Bare()) for name in "ab"]
    links = [end.open() for end in ends]
    links[0].add_peer(ends[1].address)
    wire.run(3.0)
    check_traffic(wire, ends, links)
    ends[1].received.clear()
    for _ in range(100):
        links[0].send([bytes(1 << 12)], [ends[1].address])
    wire.run(3.0)
    assert len(ends[1].received) + links[0].dropped == 100
    assert 16 <= len(ends[1].received) <= 20
    wire.cut(*ends)
    wire.run(6.0)
    check_traffic(wire, ends, links)


class Bare(MspacesStack):
    """The socket alone."""

    def layers(self, settings: StackSettings) -> list[ILayer]:
        return []
