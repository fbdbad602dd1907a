from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import attrs
import msgpack
import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from broker.delivery.commit_share import QueueLimits
from broker.delivery.feed import Feed, FeedState
from broker.delivery.pacing import MAX_FALL, MAX_RISE, Pacing
from broker.delivery.recovered_feeds import MAX_SLEEP
from broker.delivery.recovery_contract import LostRange
from broker.delivery.session_delivery import SessionDelivery
from broker.errors import LogUnavailable
from broker.event.envelope import MAX_EVENT_TIME, Liveness
from broker.event.place import Mark
from broker.event.placeholder import make_placeholder
from broker.ingest.late_validation import EventRun
from broker.log.logged_event import LoggedEvent, encode_header, header_from_fields
from broker.wire.messages import Gap, Progress
from tests.delivery.test_session_delivery import FakeLog, FakeWriter, event

FREE = Pacing()


def far(offset: int, arrival: int = 0) -> LoggedEvent:
    return attrs.evolve(event(offset), origin="far", arrival=arrival)


class Log(FakeLog):
    def first_after(self, origin: str, mark: Mark) -> int:
        found = [e.serial for e in self.events if e.origin == origin and e.mark > mark]
        return min(found, default=self.bounds.last + 1)


async def everything(_: int, run: EventRun, liveness: Liveness) -> list[bool]:
    return [True] * len(run.events)


def make_delivery(
    writer: FakeWriter, log: Log, failed: Callable[[Failure], None], clock: Clock
) -> SessionDelivery:
    return SessionDelivery(
        writer,
        clearance=2,
        limits=QueueLimits(events=3, bytes=10_000, delivery=1),
        log=cast(Any, log),
        select=everything,
        on_failed=lambda feed, failure: failed(failure),
        clock=clock,
    )


class Recovery:
    def __init__(self, *lost: LostRange, **reached: Mark) -> None:
        self.asked: Deferred[Sequence[LoggedEvent]] | None = None
        self.cancelled = False
        self.before: list[LostRange] = []
        """Before the events of the next page."""
        self._lost, self._reached = lost, reached

    def next_events(self) -> Deferred[Sequence[LoggedEvent]]:
        self.asked = Deferred()
        return self.asked

    def give(self, *events: LoggedEvent) -> None:
        assert self.asked is not None
        asked, self.asked = self.asked, None
        asked.callback(list(events))

    def fail(self, error: Exception) -> None:
        assert self.asked is not None
        self.asked.errback(error)

    def preceding_losses(self) -> Sequence[LostRange]:
        before, self.before = self.before, []
        return before

    def open_range_ends(self) -> dict[str, Mark]:
        return self._reached

    def remaining_losses(self) -> Sequence[LostRange]:
        return self._lost

    def cancel(self) -> None:
        self.cancelled = True


class Setting:
    def __init__(
        self,
        recovery: Recovery,
        pacing: Pacing = FREE,
        *,
        ends: bool = False,
        held: int = 0,
        far: int = 8,
    ) -> None:
        """The log has `held` live events, and continues behind `far` of the other origin."""
        self.writer, self.clock, self.recovery = FakeWriter(), Clock(), recovery
        self.failures: list[Failure] = []
        self.ended: list[bool] = []
        self.log = Log(*(event(n) for n in range(1, held + 1)))
        self.delivery = make_delivery(self.writer, self.log, self.failures.append, self.clock)
        self.feed = Feed(1, matcher_number=1, is_durable=True, cut=0, cursor=1)
        self.feed.is_accepted = True
        self.feed.reported_marks = {"far": (1, 2), "n": (1, 0)}
        self.delivery.add_feed(self.feed)
        end = (lambda: self.ended.append(True)) if ends else None
        joins: dict[str, Mark] = {"far": (1, far), "n": (1, 0)} if far else {"n": (1, 0)}
        self.delivery.feed_from_recovery(self.feed, recovery, joins, pacing, end)

    @property
    def told(self) -> list[Any]:
        return [each for each in self.writer.out if not isinstance(each, list)]


def test_recovered_events_come_before_the_log() -> None:
    it = Setting(recovery := Recovery(), held=2, far=0)
    assert (it.feed.state, it.writer.deliveries) == (FeedState.RECOVERING, [])
    recovery.give(far(3), far(5))
    recovery.give(far(8))
    assert it.writer.deliveries == [[3], [5], [8]]
    recovery.give()
    assert it.writer.deliveries == [[3], [5], [8], [1], [2]]
    assert it.feed.state is FeedState.LIVE
    assert not recovery.cancelled and not it.failures


def test_a_client_ahead_of_its_node_continues_from_the_log() -> None:
    it = Setting(recovery := Recovery(), held=2)
    recovery.give()
    assert (it.feed.state, it.writer.deliveries) == (FeedState.CATCHING_UP, [[1], [2]])
    late = [attrs.evolve(far(n), serial=serial) for serial, n in ((3, 7), (4, 8), (5, 9))]
    it.log.events += late
    it.delivery.resume_after_commit()
    assert it.writer.deliveries == [[1], [2], [9]]
    assert it.feed.state is FeedState.LIVE


def test_the_position_moves_to_the_start_in_the_log() -> None:
    it = Setting(recovery := Recovery(far=(1, 11)))
    recovery.give(far(3))
    recovery.give()
    assert it.told == [Progress(((1, (("far", 1, 11),)),))]


def test_a_recovery_waits_for_a_full_session() -> None:
    it = Setting(recovery := Recovery())
    it.writer.room = 1
    recovery.give(far(3), far(4))
    assert it.writer.deliveries == [[3]] and recovery.asked is None
    it.writer.room = 5
    it.delivery.send_waiting()
    assert it.writer.deliveries == [[3], [4]] and recovery.asked is not None


@pytest.mark.parametrize("room", [0, 5], ids=["waits for room", "waits for a page"])
def test_a_recovery_ends_with_its_subscription(room: int) -> None:
    it = Setting(recovery := Recovery())
    it.writer.room = room
    if not room:
        recovery.give(far(3))
    it.delivery.remove_feed(1)
    if room:
        recovery.give(far(3))
    assert recovery.cancelled
    assert it.writer.out == []


def test_a_subscription_with_an_end_ends_there() -> None:
    it = Setting(recovery := Recovery(), ends=True, held=0)
    recovery.give(far(3))
    assert it.ended == []
    recovery.give()
    assert it.ended == [True]


def test_events_that_were_not_found_are_reported() -> None:
    it = Setting(recovery := Recovery(LostRange("far", (1, 4), (1, 8), "lost")))
    recovery.give(far(3))
    recovery.give()
    assert it.told[0] == Gap(1, "far", (1, 5), (1, 8), 4, "lost")


def test_a_loss_is_reported_before_the_events_behind_it() -> None:
    it = Setting(recovery := Recovery())
    recovery.give(far(3))
    recovery.before = [LostRange("far", (1, 3), (1, 5), "lost")]
    recovery.give(far(6))
    assert it.writer.out == [[3], Gap(1, "far", (1, 4), (1, 5), 2, "lost"), [6]]


def test_a_refused_event_is_a_gap_in_its_place() -> None:
    it = Setting(recovery := Recovery())
    refused = [
        attrs.evolve(far(n), document=make_placeholder("not-valid", b"<x/>")) for n in (4, 5)
    ]
    recovery.give(far(3), *refused, far(6))
    gaps = [Gap(1, "far", (1, n), (1, n), 1, "not-valid") for n in (4, 5)]
    assert it.writer.out == [[3], *gaps, [6]]
    assert (it.feed.outcomes.delivered, it.feed.outcomes.gone) == (2, 2)
    assert it.feed.reported_marks["far"] == (1, 6)


def test_ranges_unavailable_during_a_recovery_are_reported_once_after_it() -> None:
    it = Setting(recovery := Recovery())
    for last in range(5, 15):
        it.delivery.recover_or_report("far", (1, 2), (1, last), "retention")
    assert len(it.feed.unavailable_ranges) == 1 and it.told == []
    recovery.give()
    assert [each for each in it.told if isinstance(each, Gap)] == [
        Gap(1, "far", (1, 9), (1, 14), 6, "retention")
    ]
    assert it.feed.unavailable_ranges == {}


def test_a_failed_recovery_is_reported_to_its_owner() -> None:
    it = Setting(recovery := Recovery())
    recovery.fail(LogUnavailable("broken"))
    assert [failure.type for failure in it.failures] == [LogUnavailable]
    assert recovery.cancelled


def test_events_come_at_a_factor_of_their_pace() -> None:
    it = Setting(recovery := Recovery(), Pacing(pace=10.0))
    recovery.give(far(3, 1_000), far(4, 6_000), far(5, 6_100))
    assert it.writer.deliveries == [[3]]
    it.clock.advance(0.4)
    assert it.writer.deliveries == [[3]]
    it.clock.advance(0.1)
    assert it.writer.deliveries == [[3], [4]]
    it.clock.advance(0.01)
    assert it.writer.deliveries == [[3], [4], [5]]


def timed(offset: int, time: int | None) -> LoggedEvent:
    """Arrivals are a day apart, and count for nothing."""
    made = far(offset, offset * MAX_RISE)
    header = header_from_fields(msgpack.unpackb(made.record))
    return attrs.evolve(made, record=encode_header(header._replace(time=time)))


def arrivals(*times: int | None) -> list[float]:
    """Return the ms at which events come, paced tenfold by their own times."""
    it = Setting(recovery := Recovery(), Pacing(pace=10.0, by_time=True))
    recovery.give(*(timed(offset, time) for offset, time in enumerate(times, 3)))
    found: list[float] = []
    while len(found) < len(times):
        found += [round(it.clock.seconds() * 1000)] * (len(it.writer.deliveries) - len(found))
        now = it.clock.seconds()
        it.clock.advance(min((call.getTime() - now for call in it.clock.calls), default=0))
    return found


def test_events_come_at_a_factor_of_the_pace_of_their_own_times() -> None:
    assert arrivals(0, 5_000, 5_100) == [0, 500, 510]
    # Without a time, or with an earlier one, an event comes at once.
    assert arrivals(None, 7_000, None, 6_000, 8_000, None) == [0, 0, 0, 0, 100, 100]


def test_a_time_of_another_century_stops_no_replay() -> None:
    assert arrivals(1_000, 7_258_118_400_000, 2_000, 3_000) == [0, 0, 0, 100]
    assert arrivals(MAX_EVENT_TIME, 0, 1_000, MAX_EVENT_TIME, 2_000) == [0, 0, 100, 100, 100]
    assert arrivals(0, MAX_RISE + 1, MAX_RISE + 101) == [0, 0, 10]
    assert arrivals(MAX_FALL + 2, 1, 101) == [0, 0, 10]


def test_events_come_at_most_at_the_rate() -> None:
    it = Setting(recovery := Recovery(), Pacing(rate=4))
    recovery.give(*(far(n) for n in range(3, 8)))
    for count in range(1, 6):
        assert len(it.writer.deliveries) == count
        it.clock.advance(0.25)


def test_a_feed_that_waits_for_an_hour_ends_soon_with_its_subscription() -> None:
    it = Setting(recovery := Recovery(), Pacing(pace=1.0))
    recovery.give(far(3, 0), far(4, 3_600_000))
    it.delivery.remove_feed(1)
    it.clock.advance(MAX_SLEEP)
    assert recovery.cancelled
    assert it.clock.getDelayedCalls() == []
