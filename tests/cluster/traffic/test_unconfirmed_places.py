"""Places that only another transport states: they count when the origin has confirmed them."""

from __future__ import annotations

from broker.cluster.replicas.page_frame import make_local_frame
from broker.cluster.traffic.frame_range import Range, RangeProof
from broker.cluster.traffic.received_range import AppendRange, ReceivedRange
from broker.cluster.traffic.receiver import Receiver
from broker.event.place import Mark
from broker.streams.contract import CarriedEvent
from broker.streams.dropped_count import DroppedCount
from tests.cluster.traffic.frames import node

FLOW = "87481000b702fe147b2dea68/radar.>"
ME, HOME = node("me"), node("home")
FAR = 2**40


class Child:
    """A node whose flow is at the place 10."""

    def __init__(self) -> None:
        self.covered: dict[str, Mark] = {FLOW: (1, 10)}
        self.receiver = Receiver(self.covered.get)

    def _give(self, span: Range, *places: int, is_carried: bool) -> list[tuple[int, list[int]]]:
        events = [CarriedEvent((1, each), b"", b"") for each in places]
        frame = make_local_frame(FLOW, HOME, span, events)
        effects = self.receiver.receive_range(ReceivedRange(span, frame, 0, "", is_carried), 0.0)
        found = []
        for each in effects:
            assert isinstance(each, AppendRange)
            self.covered[FLOW] = each.received.range.upto
            self.receiver.confirm_durable(FLOW, 0.0)
            events_of = each.received.frame.events_for(0)
            found.append((self.covered[FLOW][1], [e.mark[1] for e in events_of]))
        return found

    def state(self, after: int, upto: int, *places: int, dropped: int = 0) -> list[object]:
        """A parent states a range, with events."""
        counts = (DroppedCount(1, dropped, False),) if dropped else ()
        lost = (1, upto) if dropped else None
        span = Range(ME, (1, after), (1, upto), lost, is_unfiltered=True, dropped=counts)
        return [*self._give(span, *places, is_carried=True)]

    def announce(self, end: int, *, is_signed: bool = True) -> list[object]:
        """The origin announces the end of its log."""
        proof = RangeProof(0) if is_signed else None
        span = Range(ME, (1, end), (1, end), proof=proof)
        return [*self._give(span, is_carried=False)]


def test_a_range_moves_the_position_to_its_last_event() -> None:
    child = Child()
    assert child.state(10, FAR) == []
    assert child.state(FAR, FAR + 5) == []
    assert child.state(13, 14, 14) == [(14, [14])]
    # What was stated before and behind the event is not lost.
    assert child.state(15, 17, 16) == [(16, [16])]


def test_the_origin_shows_the_places_of_a_range_without_events() -> None:
    child = Child()
    assert child.state(10, 20) == []
    assert child.announce(15) == [(15, [])]
    assert child.state(20, 30, 25) == [(25, [25])]
    assert child.announce(27) == [(27, [])]
    assert child.state(30, FAR) == []
    assert child.announce(30) == [(30, [])]


def test_an_announcement_without_a_signature_counts_where_none_has_one() -> None:
    child = Child()
    child.state(10, FAR)
    assert child.announce(12, is_signed=False) == [(12, [])]
    assert child.announce(13) == [(13, [])]
    assert child.announce(20, is_signed=False) == []


def test_a_range_behind_a_missing_one_waits() -> None:
    child = Child()
    assert child.state(20, FAR) == []
    assert child.announce(12) == [] and child.announce(22) == []
    assert child.receiver.incomplete_origins == 1
    assert child.state(10, 20, 12, 20) == [(20, [12, 20]), (22, [])]


def test_an_event_that_a_queue_policy_dropped_shows_its_place() -> None:
    child = Child()
    child.receiver._may_drop = lambda _: True
    assert child.state(10, 14) == []
    assert child.state(14, 15, dropped=1) == [(15, [])]
