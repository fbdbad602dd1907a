"""One session's link, with a session that takes what it is told to and a log in a list."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, cast

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from broker.delivery.commit_share import CommitShare, QueueLimits, SharedEncodings
from broker.delivery.feed import Feed, FeedState
from broker.delivery.session_delivery import SessionDelivery
from broker.errors import LogUnavailable
from broker.event.envelope import Header, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.event.place import Mark
from broker.log.commit import Bounds
from broker.log.coverage import Coverage
from broker.log.history import HistoryChain
from broker.log.logged_event import LoggedEvent, encode_header
from broker.wire.codec import Message
from broker.wire.event_batch import decode_delivery
from broker.wire.messages import Gap, Progress

HEADER = Header(EventId("p", 1, 1, 1), "s", "t", "1.0", SecurityLevel.LOW, Liveness.LIVE)
RECORD = encode_header(HEADER)


def event(offset: int, level: int = 0, epoch: int = 1, size: int = 4) -> LoggedEvent:
    return LoggedEvent(epoch, offset, 0, level, RECORD, b"x" * size, "n", offset)


class FakeOutlet:
    """Takes as many more messages as it has `room` for."""

    def __init__(self) -> None:
        self.room = 1000
        self.out: list[Message | list[int]] = []

    @property
    def writable(self) -> bool:
        return self.room > 0

    def send_message(self, message: Message) -> None:
        self.out.append(message)

    def send_delivery(self, data: bytes) -> None:
        self.room -= 1
        self.out.append([e.place.offset for e in decode_delivery(data).events])

    @property
    def deliveries(self) -> list[list[int]]:
        return [each for each in self.out if isinstance(each, list)]


class FakeLog:
    origin = "n"
    unlogged_places = 0
    history_chain = HistoryChain()

    def __init__(self, *events: LoggedEvent) -> None:
        self.events = list(events)
        self.begins_after: dict[str, Mark] = {}
        self.history_chain = HistoryChain()
        self.broken = False
        self.slow = False
        self.asked: list[tuple[Deferred[list[LoggedEvent]], list[LoggedEvent]]] = []

    def find_fork(self, mark: Mark) -> Mark | None:
        return self.history_chain.find_fork(mark, self.events[-1].mark if self.events else (0, 0))

    @property
    def bounds(self) -> Bounds:
        if not self.events:
            return Bounds(1, 1, 0, 0)
        last = self.events[-1]
        return Bounds(last.epoch, self.events[0].serial, last.serial, 0)

    @property
    def newest_durable(self) -> Mark:
        return (self.bounds.epoch, self.bounds.last)

    @property
    def coverage(self) -> Coverage:
        coverage = Coverage({})
        for number, one in enumerate(self.events):
            # A version for each of them, so that all are new to who has seen fewer.
            coverage.advance({one.origin: one.mark})
            assert coverage.version == number + 1
        return coverage

    def end_position(self) -> dict[str, Mark]:
        return self.coverage.marks

    def read(self, start: int, most: int, _: int, wait: bool = True) -> Deferred[list[LoggedEvent]]:
        if self.broken:
            raise LogUnavailable("broken")
        page = [e for e in self.events if e.offset >= start][:most]
        if not self.slow:
            return succeed(page)
        answer: Deferred[list[LoggedEvent]] = Deferred()
        self.asked.append((answer, page))
        return answer

    def answer(self) -> None:
        """Give the page that was asked for first."""
        answer, page = self.asked.pop(0)
        answer.callback(page)


class Setting:
    def __init__(self, *events: LoggedEvent, clearance: int = 2, delivery: int = 1) -> None:
        self.outlet, self.log = FakeOutlet(), FakeLog(*events)
        self.failures: list[tuple[Feed, Failure]] = []
        self.unwanted: set[int] = set()
        self.link = SessionDelivery(
            self.outlet,
            clearance=clearance,
            limits=QueueLimits(events=3, bytes=10_000, delivery=delivery),
            log=cast(Any, self.log),
            select=self.select,
            on_failed=lambda feed, failure: self.failures.append((feed, failure)),
            clock=Clock(),
        )

    async def select(
        self, number: int, documents: Sequence[bytes], liveness: Liveness
    ) -> list[bool]:
        return [number not in self.unwanted for _ in documents]

    def subscribe(
        self, number: int = 1, cursor: int = 1, cut: Mark = (1, 0), durable: bool = False
    ) -> Feed:
        feed = Feed(
            number,
            matcher_number=number,
            is_durable=durable,
            cut=cut[1],
            cursor=cursor,
            newest_at_start=cut,
        )
        feed.reported_marks["n"] = (1, cursor - 1)
        self.link.add_feed(feed)
        self.link.start_feed(number)
        return feed

    def commit(self, *events: LoggedEvent) -> None:
        """All of them match all that is live."""
        self.log.events += events
        feeds = list(self.link.feeds)
        share = CommitShare(list(events), deque([(len(events), feeds)]))
        self.link.deliver_share(share, SharedEncodings())
        self.link.resume_after_commit()

    def check(self, feed: Feed) -> None:
        self.link.update_outcomes()
        o = feed.outcomes
        parts = o.delivered + o.filtered + o.denied + o.dropped + self.link.count_queued_for(feed)
        assert o.seen == parts, o


def test_a_link_knows_how_many_subscriptions_it_has() -> None:
    setting = Setting()
    for number in (1, 2, 3):
        setting.subscribe(number)
    setting.link.remove_feed(2)
    assert len(setting.link.feeds) == 2
    setting.link.close()
    assert len(setting.link.feeds) == 0


def test_a_page_is_sent_as_far_as_the_session_takes_it_and_the_rest_later() -> None:
    setting = Setting(*map(event, range(1, 11)))
    setting.outlet.room = 3
    feed = setting.subscribe(cut=(1, 10), durable=True)
    assert setting.outlet.deliveries == [[1], [2], [3]]
    assert (feed.cursor, feed.outcomes.seen, feed.outcomes.delivered) == (4, 3, 3)
    setting.check(feed)
    setting.outlet.room = 100
    setting.link.send_waiting()
    assert [n for delivery in setting.outlet.deliveries for n in delivery] == list(range(1, 11))
    assert feed.state is FeedState.LIVE
    setting.check(feed)


def test_what_is_skipped_before_the_session_was_full_is_not_looked_at_again() -> None:
    setting = Setting(event(1), event(2, level=2), event(3), event(4), clearance=1)
    setting.outlet.room = 1
    feed = setting.subscribe(cut=(1, 4))
    assert (feed.cursor, feed.outcomes.denied, feed.outcomes.delivered) == (3, 1, 1)
    setting.outlet.room = 100
    setting.link.send_waiting()
    assert feed.outcomes.denied == 1
    assert setting.outlet.deliveries == [[1], [3], [4]]
    setting.check(feed)


def test_subscriptions_that_catch_up_take_turns() -> None:
    setting = Setting(*map(event, range(1, 1001)), delivery=100_000)
    setting.log.slow = True
    feeds = [setting.subscribe(n, cut=(1, 1000)) for n in (1, 2, 3)]
    setting.outlet.room = 4
    while setting.log.asked:
        # What is read by all at once could not be sent by most.
        assert len(setting.log.asked) == 1
        setting.log.answer()
    assert [feed.cursor for feed in feeds] == [513, 257, 257]


def test_a_subscription_that_can_not_be_fed_hinders_no_other() -> None:
    setting = Setting(*map(event, range(1, 11)), delivery=100_000)
    setting.outlet.room = 0
    first = setting.subscribe(1, cut=(1, 10))
    setting.outlet.room = 10
    setting.log.broken = True
    setting.link.send_waiting()
    ((failed, failure),) = setting.failures
    assert failed is first and failure.check(LogUnavailable)
    setting.log.broken = False
    setting.subscribe(2, cut=(1, 10))
    assert setting.outlet.deliveries == [list(range(1, 11))]


def test_live_events_go_out_at_once_and_only_to_who_is_live() -> None:
    setting = Setting()
    live = setting.subscribe(1)
    behind = setting.subscribe(2, cut=(1, 9), cursor=10)
    behind.state = FeedState.CATCHING_UP
    setting.commit(event(1), event(2))
    assert setting.outlet.deliveries == [[1], [2]]
    assert (live.outcomes.delivered, behind.outcomes.delivered) == (2, 0)
    setting.check(live)


def test_the_oldest_of_a_full_queue_are_dropped_and_told_before_the_rest() -> None:
    setting = Setting(delivery=100_000)
    transient, durable = setting.subscribe(1), setting.subscribe(2, durable=True)
    setting.outlet.room = 0
    setting.commit(*map(event, range(1, 8)))
    assert (transient.outcomes.dropped, setting.link.queued[0]) == (4, 3)
    assert (durable.state, durable.cursor) == (FeedState.CATCHING_UP, 1)
    for feed in (transient, durable):
        setting.check(feed)
    setting.outlet.room = 10
    setting.link.send_waiting()
    assert setting.outlet.out == [
        Gap(1, "n", (1, 1), (1, 4), 4, "slow"),
        [5, 6, 7],
        [1, 2, 3, 4, 5, 6, 7],
    ]
    for feed in (transient, durable):
        setting.check(feed)


def test_a_gap_is_told_also_where_nothing_follows_it_in_the_queue() -> None:
    setting = Setting(delivery=100_000)
    feed = setting.subscribe()
    setting.outlet.room = 0
    setting.commit(event(1, size=20_000))
    assert (feed.outcomes.dropped, setting.link.queued) == (1, (0, 0))
    setting.outlet.room = 10
    # Before the session has said that there is room again.
    setting.link.send_progress()
    setting.commit(event(2))
    assert setting.outlet.out == []
    setting.link.send_waiting()
    assert setting.outlet.out == [Gap(1, "n", (1, 1), (1, 1), 1, "slow"), [2]]
    setting.outlet.room = 0
    setting.commit(event(3, size=20_000))
    setting.outlet.room = 10
    setting.link.send_waiting()
    assert setting.outlet.out[2:] == [Gap(1, "n", (1, 3), (1, 3), 1, "slow")]
    setting.check(feed)


def test_a_full_session_is_kept_what_its_client_is_cleared_for() -> None:
    setting = Setting(delivery=100_000, clearance=1)
    feed = setting.subscribe()
    setting.outlet.room = 0
    setting.commit(event(1, level=1), event(2, level=2), event(3, level=0))
    setting.outlet.room = 10
    setting.link.send_waiting()
    assert setting.outlet.deliveries == [[1, 3]]
    assert (feed.outcomes.denied, feed.outcomes.dropped) == (1, 0)
    setting.check(feed)


def test_what_waits_for_a_subscription_that_ends_is_dropped_with_it() -> None:
    setting = Setting(delivery=100_000)
    first, second = setting.subscribe(1), setting.subscribe(2)
    setting.outlet.room = 0
    setting.commit(event(1), event(2))
    setting.link.remove_feed(1)
    assert (first.outcomes.seen, first.outcomes.dropped) == (2, 2)
    setting.link.close()
    assert (second.outcomes.seen, second.outcomes.dropped) == (2, 2)
    assert setting.link.queued == (0, 0)
    # A closed link takes nothing: nobody would count it.
    setting.link.deliver_share(CommitShare([event(3)], deque([(1, [second])])), SharedEncodings())
    assert setting.link.queued == (0, 0)


def test_what_retention_took_is_told_with_its_bounds() -> None:
    setting = Setting(*(event(n) for n in range(1, 7)), event(7, epoch=2), event(8, epoch=3))
    setting.log.slow = True
    feed = setting.subscribe(cursor=3, cut=(3, 8))
    del setting.log.events[:6]
    setting.log.begins_after["n"] = (1, 6)
    setting.log.asked[0][1][:4] = []
    setting.log.answer()
    assert setting.outlet.out[0] == Gap(1, "n", (1, 3), (1, 6), 4, "retention")
    assert feed.outcomes.gone == 4
    setting.check(feed)


def test_progress_is_told_once_for_each_move_and_never_ahead_of_what_waits() -> None:
    setting = Setting()
    feed = setting.subscribe()
    setting.log.events += [event(1), event(2)]
    setting.link.send_progress()
    setting.link.send_progress()
    assert setting.outlet.out == [Progress(((1, (("n", 1, 2),)),))]
    setting.outlet.room = 0
    setting.commit(event(3))
    setting.link.send_progress()
    assert len(setting.outlet.out) == 1
    setting.check(feed)


def test_stream_times_go_to_live_subscriptions_that_asked_behind_their_events() -> None:
    setting = Setting()
    timed, _ = setting.subscribe(1), setting.subscribe(2)
    timed.wants_stream_times = True
    times = (("n", 5),)
    setting.log.events.append(event(1))
    setting.link.send_progress(times)
    assert setting.outlet.out == [
        Progress(((1, (("n", 1, 1),)), (2, (("n", 1, 1),)))),
        Progress((), ((1, times),)),
    ]
    setting.outlet.out.clear()
    timed.is_active = False
    setting.link.send_progress(times)
    timed.is_active = True
    setting.outlet.room = 0
    setting.commit(event(2))
    setting.link.send_progress(times)
    assert setting.outlet.out == []
    # Events of a transient subscriber wait: they are sent before the next stream times.
    setting.outlet.room = 10
    setting.link.send_waiting()
    setting.link.send_progress(times)
    assert [type(each).__name__ for each in setting.outlet.out] == ["list", "Progress"]
    timed.fall_behind(1)
    setting.outlet.out.clear()
    setting.link.send_progress(times)
    assert setting.outlet.out == []


def test_a_subscription_waits_at_the_logs_end_for_what_was_under_way() -> None:
    setting = Setting(event(1), delivery=100_000)
    feed = setting.subscribe(cut=(1, 3))
    assert feed.awaits_commit
    # Two and three were matched before it was there: they are read, not delivered live.
    setting.log.events += [event(2), event(3)]
    setting.link.resume_after_commit()
    assert feed.state is FeedState.LIVE
    assert setting.outlet.deliveries == [[1], [2, 3]]
    setting.check(feed)
