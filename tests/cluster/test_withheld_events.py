from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from twisted.internet.defer import Deferred, succeed

from broker.cluster import withheld_events
from broker.cluster.address import Address
from broker.cluster.traffic.received_range import ReceivedRange
from broker.cluster.withheld_events import WithheldEvents
from broker.errors import BrokerError, LogUnavailable
from broker.event.envelope import Header, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.event.place import Mark
from broker.log.coverage import Coverage
from broker.log.known_flows import KnownFlows
from broker.log.logged_event import LoggedEvent, encode_header
from broker.log.withheld_flows import WithheldFlows

OWN, FLOW = "own", "own/s"
INTERVALS = {FLOW: (((1, 0), None),)}


def event(offset: int, stream: str = "s") -> LoggedEvent:
    header = Header(EventId("c", 1, offset, 1), stream, "t", "1", SecurityLevel.LOW, Liveness.LIVE)
    return LoggedEvent(1, offset, 0, 0, encode_header(header), b"<x/>", OWN, offset)


class Setting:
    """A log, and ingest whose ranges are logged or fail later."""

    origin = OWN

    def __init__(self, *events: LoggedEvent, covered: int = 0, is_lapsed: bool = False) -> None:
        ordered = frozenset({FLOW})
        self.flows = KnownFlows(
            OWN, INTERVALS, WithheldFlows(INTERVALS, ordered, ordered if is_lapsed else frozenset())
        )
        self.logged = list(events)
        self.coverage = Coverage({OWN: (1, len(events)), FLOW: (1, covered)})
        self.pending: Mark = (0, 0)
        self.reads = 0
        self.answers: list[Deferred[None]] | None = None
        self.ranges: list[tuple[list[int], Mark, Callable[[BrokerError | None], None]]] = []
        self.recovered: list[int] = []
        self.copied: list[int] = []
        self.covers = 0
        self.withheld = WithheldEvents(
            cast(Any, self),
            cast(Any, self),
            lambda: Address(("c",), "n"),
            lambda received: self.recovered.extend(self.offsets(received)),
            self.count_cover,
        )

    def count_cover(self) -> None:
        self.covers += 1

    def offsets(self, received: ReceivedRange) -> list[int]:
        frame = received.frame
        return [each.mark[1] for each in frame.events_at(frame.event_indices_for(0))]

    def read_past_damage(
        self, origin: str, after: Mark, most: int, _: int
    ) -> Deferred[list[LoggedEvent]]:
        assert origin == OWN
        self.reads += 1
        page = [each for each in self.logged if each.mark > after][:most]
        answer: Deferred[None] = Deferred()
        if self.answers is None:
            answer = succeed(None)
        else:
            self.answers.append(answer)
        return answer.addCallback(lambda _: page)

    def log_range(
        self, received: ReceivedRange, cursor: Mark, settled: Callable[[BrokerError | None], None]
    ) -> None:
        assert received.is_copy and received.range.after == cursor
        self.ranges.append((self.offsets(received), received.range.upto, settled))

    def settle(self, error: BrokerError | None = None) -> None:
        while self.ranges:
            ranges, self.ranges = self.ranges, []
            for offsets, upto, settled in ranges:
                if error is None:
                    self.copied += offsets
                    self.coverage.advance({FLOW: upto})
                settled(error)

    def settle_part(self, upto: int) -> None:
        """Log the first range up to this offset, and fail with the rest and later ones."""
        (offsets, _, settled), *later = self.ranges
        self.ranges = []
        self.copied += [offset for offset in offsets if offset <= upto]
        self.pending = (1, upto)
        for each in (settled, *(settled for _, _, settled in later)):
            each(LogUnavailable("overloaded"))
        self.coverage.advance({FLOW: (1, upto)})
        settled(None)

    def own_cut(self) -> dict[str, Mark]:
        return {FLOW: max(self.coverage[FLOW], self.pending)}

    def commit(self, *offsets: int, stream: str = "s") -> list[int]:
        """Return the events that are delivered at once."""
        events = [event(offset, stream) for offset in offsets]
        self.logged += [event(offset, stream) for offset in offsets]
        self.coverage.advance({OWN: events[-1].mark})
        self.flows.label_own(events)
        shown, _ = self.withheld.withhold(events, [()] * len(events))
        return [each.offset for each in shown]

    def hand_over(self, after: int, upto: int) -> None:
        assert self.withheld.release(FLOW, (1, after), (1, upto))

    def tick(self) -> None:
        self.withheld.release_overdue()
        self.settle()


def test_events_are_released_up_to_the_end_of_a_batch() -> None:
    setting = Setting()
    assert setting.commit(1) == [] and setting.commit(2, stream="x") == [2]
    assert setting.commit(3) == [] and setting.commit(4) == []
    setting.hand_over(0, 3)
    setting.settle()
    assert setting.copied == [1, 3] and setting.recovered == []
    setting.hand_over(0, 3)
    setting.hand_over(3, 4)
    setting.settle()
    assert setting.copied == [1, 3, 4] and not setting.reads
    assert not setting.withheld.release("other/s", (1, 0), (1, 4))


def test_a_batch_behind_others_reveals_that_they_are_lost() -> None:
    setting = Setting()
    setting.commit(1, 2, 3)
    setting.hand_over(2, 3)
    setting.settle()
    assert setting.copied == [1, 2, 3] and setting.recovered == [1, 2]


def test_a_batch_of_the_future_releases_no_later_event() -> None:
    setting = Setting()
    setting.commit(1)
    setting.hand_over(0, 1_000)
    setting.commit(2)
    setting.settle()
    assert setting.copied == [1] and setting.coverage[FLOW] == (1, 1)


def test_events_are_overdue_after_one_to_two_seconds() -> None:
    setting = Setting()
    setting.commit(1)
    setting.tick()
    assert setting.copied == []
    setting.commit(2)
    setting.tick()
    assert setting.copied == setting.recovered == [1]
    setting.tick()
    assert setting.copied == setting.recovered == [1, 2]


def test_an_idle_flow_is_complete_up_to_the_end_of_the_log() -> None:
    setting = Setting()
    setting.commit(1, stream="x")
    setting.tick()
    assert setting.coverage[FLOW] == (1, 1) and setting.covers == 1
    setting.tick()
    assert setting.covers == 1


def test_events_of_an_earlier_process_are_read_from_the_log() -> None:
    many = [event(n, "s" if n % 3 else "x") for n in range(1, 1_501)]
    setting = Setting(*many, covered=100)
    setting.commit(1_501)
    setting.hand_over(1_500, 1_501)
    while setting.ranges:
        setting.settle()
    assert setting.copied == [n for n in range(101, 1_502) if n % 3]
    assert setting.reads == 3 and setting.coverage[FLOW] == (1, 1_501)
    setting.commit(1_502)
    setting.hand_over(1_501, 1_502)
    setting.settle()
    assert setting.reads == 3 and setting.copied[-1] == 1_502


def test_events_that_come_during_the_reading_follow() -> None:
    setting = Setting(event(1), event(2))
    setting.answers = []
    setting.hand_over(0, 2)
    setting.commit(3)
    setting.hand_over(2, 3)
    while setting.answers:
        setting.answers.pop().callback(None)
        setting.settle()
    assert setting.copied == [1, 2, 3]


@pytest.mark.parametrize("is_reading", [False, True])
def test_ranges_that_were_not_logged_come_again(is_reading: bool) -> None:
    setting = Setting(*([event(1)] if is_reading else []))
    setting.commit(2)
    setting.hand_over(0, 2)
    setting.commit(3)
    setting.hand_over(2, 3)
    setting.settle(LogUnavailable("full"))
    setting.commit(4)
    for _ in range(3):
        setting.tick()
    assert setting.copied == ([1] if is_reading else []) + [2, 3, 4]
    setting.commit(5)
    setting.hand_over(4, 5)
    setting.settle()
    assert setting.copied[-1] == 5


@pytest.mark.parametrize("is_reading", [False, True])
def test_the_logged_part_of_a_range_does_not_come_again(is_reading: bool) -> None:
    setting = Setting(*([event(1), event(2)] if is_reading else []))
    setting.commit(3, 4, 5)
    setting.hand_over(0, 4)
    setting.hand_over(4, 5)
    setting.settle_part(1 if is_reading else 3)
    for _ in range(3):
        setting.tick()
    assert setting.copied == ([1, 2] if is_reading else []) + [3, 4, 5]


def test_events_beyond_the_bound_of_memory_are_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(withheld_events, "MOST_KEPT_BYTES", 5 * event(1).size)
    setting = Setting()
    setting.commit(*range(1, 21))
    setting.hand_over(0, 20)
    setting.settle()
    assert setting.reads == 1 and setting.copied == list(range(1, 21))


def test_a_flow_without_a_transport_is_released_with_the_commit() -> None:
    setting = Setting(event(1), is_lapsed=True)
    assert setting.commit(2) == []
    while setting.ranges:
        setting.settle()
    assert setting.copied == [1, 2]
    setting.commit(3)
    setting.settle()
    assert setting.copied == [1, 2, 3]


def test_the_rest_of_a_flow_without_a_transport_is_released_at_the_first_tick() -> None:
    setting = Setting(event(1), is_lapsed=True)
    setting.tick()
    assert setting.copied == [1]
