"""A subscription that is fed with what is recovered, then by its log; or that ends there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import attrs
import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from broker.delivery.commit_share import QueueLimits
from broker.delivery.feed import Feed, FeedState
from broker.delivery.pacing import Pacing
from broker.delivery.recovered_feeds import MAX_SLEEP
from broker.delivery.recovery_contract import LostRange
from broker.delivery.session_delivery import SessionDelivery
from broker.errors import LogUnavailable
from broker.event.envelope import Liveness
from broker.event.place import Mark
from broker.event.placeholder import make_placeholder
from broker.log.logged_event import LoggedEvent
from broker.wire.messages import Gap, Progress
from tests.delivery.test_session_delivery import FakeLog, FakeOutlet, event

FREE = Pacing()


def far(offset: int, arrival: int = 0) -> LoggedEvent:
    return attrs.evolve(event(offset), origin="far", arrival=arrival)


class Log(FakeLog):
    def first_after(self, origin: str, mark: Mark) -> int:
        found = [e.serial for e in self.events if e.origin == origin and e.mark > mark]
        return min(found, default=self.bounds.last + 1)


async def everything(_: int, documents: Sequence[bytes], liveness: Liveness) -> list[bool]:
    """What matches."""
    return [True] * len(documents)


def made_link(
    outlet: FakeOutlet, log: Log, failed: Callable[[Failure], object], clock: Clock
) -> SessionDelivery:
    """One that everything matches for."""
    return SessionDelivery(
        outlet,
        clearance=2,
        limits=QueueLimits(events=3, bytes=10_000, delivery=1),
        log=cast(Any, log),
        select=everything,
        on_failed=lambda feed, failure: failed(failure),
        clock=clock,
    )


class Recovery:
    """Gives pages when it is told to."""

    def __init__(self, *lost: LostRange, **reached: Mark) -> None:
        self.asked: Deferred[Sequence[LoggedEvent]] | None = None
        self.cancelled = False
        self.before: list[LostRange] = []
        """Losses before the events that are given next."""
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
        """`held` live events are in the log, which goes on behind `far` of the other origin."""
        self.outlet, self.clock, self.recovery = FakeOutlet(), Clock(), recovery
        self.failures: list[Failure] = []
        self.ended: list[bool] = []
        self.log = Log(*(event(n) for n in range(1, held + 1)))
        self.link = made_link(self.outlet, self.log, self.failures.append, self.clock)
        self.feed = Feed(1, matcher_number=1, is_durable=True, cut=0, cursor=1)
        self.feed.is_accepted = True
        self.feed.reported_marks = {"far": (1, 2), "n": (1, 0)}
        self.link.add_feed(self.feed)
        end = (lambda: self.ended.append(True)) if ends else None
        joins: dict[str, Mark] = {"far": (1, far), "n": (1, 0)} if far else {"n": (1, 0)}
        self.link.feed_from_recovery(self.feed, recovery, joins, pacing, end)

    @property
    def told(self) -> list[Any]:
        return [each for each in self.outlet.out if not isinstance(each, list)]


def test_what_is_recovered_comes_first_and_then_the_log() -> None:
    it = Setting(recovery := Recovery(), held=2, far=0)
    assert it.feed.state is FeedState.RECOVERING
    recovery.give(far(3), far(5))
    recovery.give(far(8))
    assert it.outlet.deliveries == [[3], [5], [8]]
    recovery.give()
    assert it.outlet.deliveries == [[3], [5], [8], [1], [2]]
    assert it.feed.state is FeedState.LIVE
    assert not recovery.cancelled and not it.failures


def test_one_that_has_had_more_than_its_node_reads_the_log_on() -> None:
    """What its node has yet to get of the other origin is not for it."""
    it = Setting(recovery := Recovery(), held=2)
    recovery.give()
    assert it.outlet.deliveries == [[1], [2]]
    assert it.feed.state is FeedState.CATCHING_UP
    late = [attrs.evolve(far(n), serial=serial) for serial, n in ((3, 7), (4, 8), (5, 9))]
    it.log.events += late
    it.link.resume_after_commit()
    assert it.outlet.deliveries == [[1], [2], [9]]
    assert it.feed.state is FeedState.LIVE


def test_its_position_moves_to_where_the_log_goes_on() -> None:
    it = Setting(recovery := Recovery(far=(1, 11)))
    recovery.give(far(3))
    recovery.give()
    # Further than was known here, where the recovery found more.
    assert it.told == [Progress(((1, (("far", 1, 11),)),))]


def test_a_full_session_is_waited_for() -> None:
    it = Setting(recovery := Recovery())
    it.outlet.room = 1
    recovery.give(far(3), far(4))
    assert it.outlet.deliveries == [[3]] and recovery.asked is None
    it.outlet.room = 5
    it.link.send_waiting()
    assert it.outlet.deliveries == [[3], [4]] and recovery.asked is not None


@pytest.mark.parametrize("room", [0, 5], ids=["waits for room", "waits for a page"])
def test_who_unsubscribes_wants_no_more(room: int) -> None:
    it = Setting(recovery := Recovery())
    it.outlet.room = room
    if not room:
        recovery.give(far(3))
    it.link.remove_feed(1)
    if room:
        recovery.give(far(3))
    assert recovery.cancelled
    assert it.outlet.out == []


def test_one_with_an_end_ends_there() -> None:
    it = Setting(recovery := Recovery(), ends=True, held=0)
    recovery.give(far(3))
    assert it.ended == []
    recovery.give()
    assert it.ended == [True]


def test_what_was_not_found_is_told() -> None:
    it = Setting(recovery := Recovery(LostRange("far", (1, 4), (1, 8), "lost")))
    recovery.give(far(3))
    recovery.give()
    assert it.told[0] == Gap(1, "far", (1, 5), (1, 8), 4, "lost")


def test_a_loss_is_told_before_the_events_behind_it() -> None:
    it = Setting(recovery := Recovery())
    recovery.give(far(3))
    recovery.before = [LostRange("far", (1, 3), (1, 5), "lost")]
    recovery.give(far(6))
    assert it.outlet.out == [[3], Gap(1, "far", (1, 4), (1, 5), 2, "lost"), [6]]


def test_a_refused_event_is_a_gap_in_its_place() -> None:
    it = Setting(recovery := Recovery())
    refused = [attrs.evolve(far(n), document=make_placeholder("not-valid")) for n in (4, 5)]
    recovery.give(far(3), *refused, far(6))
    gaps = [Gap(1, "far", (1, n), (1, n), 1, "not-valid") for n in (4, 5)]
    assert it.outlet.out == [[3], *gaps, [6]]
    assert (it.feed.outcomes.delivered, it.feed.outcomes.gone) == (2, 2)
    assert it.feed.reported_marks["far"] == (1, 6)


def test_what_goes_meanwhile_is_told_once_and_behind_it() -> None:
    it = Setting(recovery := Recovery())
    for last in range(5, 15):
        it.link.recover_or_report("far", (1, 2), (1, last), "retention")
    assert len(it.feed.unavailable_ranges) == 1 and it.told == []
    recovery.give()
    assert [each for each in it.told if isinstance(each, Gap)] == [
        Gap(1, "far", (1, 9), (1, 14), 6, "retention")
    ]
    assert it.feed.unavailable_ranges == {}


def test_a_recovery_that_breaks_is_told_to_its_owner() -> None:
    it = Setting(recovery := Recovery())
    recovery.fail(LogUnavailable("broken"))
    assert [failure.type for failure in it.failures] == [LogUnavailable]
    assert recovery.cancelled


def test_events_come_at_a_factor_of_their_pace() -> None:
    it = Setting(recovery := Recovery(), Pacing(pace=10.0))
    recovery.give(far(3, 1_000), far(4, 6_000), far(5, 6_100))
    assert it.outlet.deliveries == [[3]]
    it.clock.advance(0.4)
    assert it.outlet.deliveries == [[3]]
    it.clock.advance(0.1)
    assert it.outlet.deliveries == [[3], [4]]
    it.clock.advance(0.01)
    assert it.outlet.deliveries == [[3], [4], [5]]


def test_no_more_events_come_than_the_rate_lets() -> None:
    it = Setting(recovery := Recovery(), Pacing(rate=4))
    recovery.give(*(far(n) for n in range(3, 8)))
    for count in range(1, 6):
        assert len(it.outlet.deliveries) == count
        it.clock.advance(0.25)


def test_who_waits_for_an_hour_is_let_go_soon() -> None:
    it = Setting(recovery := Recovery(), Pacing(pace=1.0))
    recovery.give(far(3, 0), far(4, 3_600_000))
    it.link.remove_feed(1)
    it.clock.advance(MAX_SLEEP)
    assert recovery.cancelled
    assert it.clock.getDelayedCalls() == []
