"""Flows that other transports carry, at their origin node and at a receiver."""

from __future__ import annotations

from broker.cluster.traffic.claims import FLOW_GRACE_SECONDS
from broker.cluster.traffic.frame import Frame
from broker.cluster.traffic.own_senders import OwnSenders
from broker.cluster.traffic.sender import OutgoingEvent
from broker.event.place import Mark
from broker.streams.contract import CarriedEvent
from tests.cluster.traffic.frames import HOME, node
from tests.cluster.traffic.test_receiver import Log, plain

FLOW = "o/asdi.>"
ONE, OTHER = node("one"), node("other")
INTERVALS = (((1, 0), None),)


def test_another_transport_has_a_grace_before_its_events_are_requested() -> None:
    log = Log(**{"o": (1, 5), FLOW: (1, 3)})
    assert log.receive(9, 9, origin=FLOW, now=100.0) == []
    assert log.receiver.next_timeout() == 100.0 + FLOW_GRACE_SECONDS
    assert log.receive(3, 9, origin=FLOW, now=100.2) == [("take", 3, 9, 3)]
    assert log.receiver.next_timeout() is None
    assert log.receiver.position_of("o") == (1, 5)
    log.receive(12, 12, origin=FLOW, now=101.0)
    assert plain(log.receiver.handle_timeout(101.0 + FLOW_GRACE_SECONDS)) == [("ask", 9)]


def test_what_is_missing_before_a_range_of_a_transport_in_order_is_requested_at_once() -> None:
    log = Log(**{FLOW: (1, 3)})
    assert log.receive(9, 12, origin=FLOW, now=100.0, in_order=True) == []
    assert log.receiver.next_timeout() == 100.0
    assert plain(log.receiver.handle_timeout(100.0)) == [("ask", 3)]
    # The page fills a part: what is missing behind it is requested at once, too.
    assert log.receive(3, 6, origin=FLOW, now=100.1) == [("take", 3, 6, 3)]
    assert plain(log.receiver.handle_timeout(100.1)) == [("ask", 6)]
    assert log.receive(6, 9, origin=FLOW, now=100.2) == [("take", 6, 9, 6), ("take", 9, 12, 9)]
    assert log.receiver.next_timeout() is None


class Senders:
    """Of an origin whose newest place is `newest`."""

    def __init__(self, newest: int = 0, until: Mark | None = None) -> None:
        self.newest = newest
        self.senders = OwnSenders(
            *("o", HOME, lambda: (1, self.newest), lambda *_: True),
            {FLOW: INTERVALS},
            lambda _, mark: mark if until is None else min(mark, until),
        )
        self.senders.set_destinations([ONE, OTHER], ())

    def carry(self, upto: int, *to: int) -> None:
        """Record events at these places for `ONE`."""
        self.newest = upto
        events = [
            OutgoingEvent(CarriedEvent((1, n), b"r", b"<x/>"), 0, frozenset([ONE])) for n in to
        ]
        self.senders.record_flow_events(FLOW, (1, upto), events)

    def announced(self) -> dict[str, tuple[int, int]]:
        """Return the next announced range of the flow by destination."""
        frames: list[Frame] = self.senders.progress_frames()
        return {
            span.destination.node: (span.after[1], span.upto[1])
            for frame in frames
            if frame.origin == FLOW
            for span in frame.ranges
        }


def test_the_end_of_a_flow_is_announced_and_repeated() -> None:
    senders = Senders()
    senders.announced()
    senders.carry(7, 3, 5)
    # Two events are on their way to one destination, and none to the other.
    assert senders.announced() == {"one": (7, 7), "other": (0, 7)}
    senders.carry(9)
    assert senders.announced() == {"one": (7, 9), "other": (7, 9)}
    again = [senders.announced() for _ in range(64)]
    assert {"one": (9, 9), "other": (9, 9)} in again


def test_an_announcement_has_the_intervals_of_its_flow() -> None:
    senders = Senders()
    frames = senders.senders.progress_frames()
    assert {frame.origin: tuple(frame.intervals) for frame in frames} == {
        "o": (),
        FLOW: INTERVALS,
    }


def test_events_of_another_flow_do_not_move_the_default_one() -> None:
    senders = Senders()
    senders.carry(7, 3)
    assert senders.senders.default.sent_upto == (1, 0)
    assert senders.senders[FLOW].sent_upto == (1, 7)


def test_a_closed_flow_is_announced_up_to_its_end() -> None:
    senders = Senders(9, until=(1, 5))
    senders.carry(12)
    assert senders.announced() == {"one": (5, 5), "other": (5, 5)}
