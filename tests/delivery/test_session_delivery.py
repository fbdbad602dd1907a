from __future__ import annotations

from collections import Counter, deque
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
from broker.ingest.late_validation import EventRun
from broker.log.commit import Bounds
from broker.log.coverage import Coverage
from broker.log.history import HistoryChain
from broker.log.known_flows import KnownFlows
from broker.log.logged_event import LoggedEvent, encode_header
from broker.log.withheld_flows import WithheldFlows
from broker.wire.codec import Message
from broker.wire.event_batch import decode_delivery
from broker.wire.messages import PROTOCOL_VERSIONS, Gap, Progress

HEADER = Header(EventId("p", 1, 1, 1), "s", "t", "1.0", SecurityLevel.LOW, Liveness.LIVE)
RECORD = encode_header(HEADER)


def event(offset: int, level: int = 0, epoch: int = 1, size: int = 4) -> LoggedEvent:
    return LoggedEvent(epoch, offset, 0, level, RECORD, b"x" * size, "n", offset)


class FakeWriter:
    version = PROTOCOL_VERSIONS[-1]

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
    flows = KnownFlows("n", {})

    def __init__(self, *events: LoggedEvent) -> None:
        self.events = list(events)
        self.begins_after: dict[str, Mark] = {}
        self.has_left_out = False
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
            # Each event is new to readers of fewer.
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
        answer, page = self.asked.pop(0)
        answer.callback(page)


class Setting:
    def __init__(self, *events: LoggedEvent, clearance: int = 2, delivery: int = 1) -> None:
        self.writer, self.log = FakeWriter(), FakeLog(*events)
        self.failures: list[tuple[Feed, Failure]] = []
        self.unwanted: set[int] = set()
        self.delivery = SessionDelivery(
            self.writer,
            clearance=clearance,
            limits=QueueLimits(events=3, bytes=10_000, delivery=delivery),
            log=cast(Any, self.log),
            select=self.select,
            on_failed=lambda feed, failure: self.failures.append((feed, failure)),
            clock=Clock(),
        )

    async def select(self, number: int, run: EventRun, liveness: Liveness) -> list[bool]:
        return [number not in self.unwanted for _ in run.events]

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
        self.delivery.add_feed(feed)
        self.delivery.start_feed(number)
        return feed

    def commit(self, *events: LoggedEvent) -> None:
        self.log.events += events
        self.delivery.count_denied(Counter(each.level for each in events))
        seen = [each for each in events if each.level <= self.delivery.clearance]
        runs = deque([(len(seen), [*self.delivery.feeds])])
        self.delivery.deliver_share(CommitShare(seen, runs), SharedEncodings())
        self.delivery.resume_after_commit()

    def check(self, feed: Feed) -> None:
        self.delivery.update_outcomes()
        o, queued = feed.outcomes, self.delivery.count_queued_for(feed)
        assert o.seen == o.delivered + o.filtered + o.denied + o.dropped + queued, o


def test_a_delivery_counts_its_subscriptions() -> None:
    setting = Setting()
    for number in (1, 2, 3):
        setting.subscribe(number)
    setting.delivery.remove_feed(2)
    assert len(setting.delivery.feeds) == 2
    setting.delivery.close()
    assert len(setting.delivery.feeds) == 0


def test_a_page_is_sent_up_to_the_session_limit_and_the_rest_later() -> None:
    setting = Setting(*map(event, range(1, 11)))
    setting.writer.room = 3
    feed = setting.subscribe(cut=(1, 10), durable=True)
    assert setting.writer.deliveries == [[1], [2], [3]]
    assert (feed.cursor, feed.outcomes.seen, feed.outcomes.delivered) == (4, 3, 3)
    setting.check(feed)
    setting.writer.room = 100
    setting.delivery.send_waiting()
    assert [n for delivery in setting.writer.deliveries for n in delivery] == list(range(1, 11))
    assert feed.state is FeedState.LIVE
    setting.check(feed)


def test_events_skipped_before_the_session_was_full_are_not_read_again() -> None:
    setting = Setting(event(1), event(2, level=2), event(3), event(4), clearance=1)
    setting.writer.room = 1
    feed = setting.subscribe(cut=(1, 4))
    assert (feed.cursor, feed.outcomes.denied, feed.outcomes.delivered) == (3, 1, 1)
    setting.writer.room = 100
    setting.delivery.send_waiting()
    assert feed.outcomes.denied == 1
    assert setting.writer.deliveries == [[1], [3], [4]]
    setting.check(feed)


def test_subscriptions_read_pages_in_turn() -> None:
    setting = Setting(*map(event, range(1, 1001)), delivery=100_000)
    setting.log.slow = True
    feeds = [setting.subscribe(n, cut=(1, 1000)) for n in (1, 2, 3)]
    setting.writer.room = 4
    while setting.log.asked:
        # Most of several pages could not be sent.
        assert len(setting.log.asked) == 1
        setting.log.answer()
    assert [feed.cursor for feed in feeds] == [513, 257, 257]


def test_a_failed_subscription_does_not_block_others() -> None:
    setting = Setting(*map(event, range(1, 11)), delivery=100_000)
    setting.writer.room = 0
    first = setting.subscribe(1, cut=(1, 10))
    setting.writer.room = 10
    setting.log.broken = True
    setting.delivery.send_waiting()
    ((failed, failure),) = setting.failures
    assert failed is first and failure.check(LogUnavailable)
    setting.log.broken = False
    setting.subscribe(2, cut=(1, 10))
    assert setting.writer.deliveries == [list(range(1, 11))]


def test_live_events_are_sent_at_once_to_live_subscriptions_only() -> None:
    setting = Setting()
    live = setting.subscribe(1)
    behind = setting.subscribe(2, cut=(1, 9), cursor=10)
    behind.state = FeedState.CATCHING_UP
    setting.commit(event(1), event(2))
    assert setting.writer.deliveries == [[1], [2]]
    assert (live.outcomes.delivered, behind.outcomes.delivered) == (2, 0)
    setting.check(live)


def test_the_oldest_of_a_full_queue_are_dropped_and_reported_before_the_rest() -> None:
    setting = Setting(delivery=100_000)
    transient, durable = setting.subscribe(1), setting.subscribe(2, durable=True)
    setting.writer.room = 0
    setting.commit(*map(event, range(1, 8)))
    assert (transient.outcomes.dropped, setting.delivery.queued[0]) == (4, 3)
    assert (durable.state, durable.cursor) == (FeedState.CATCHING_UP, 1)
    for feed in (transient, durable):
        setting.check(feed)
    setting.writer.room = 10
    setting.delivery.send_waiting()
    assert setting.writer.out == [
        Gap(1, "n", (1, 1), (1, 4), 4, "slow"),
        [5, 6, 7],
        [1, 2, 3, 4, 5, 6, 7],
    ]
    for feed in (transient, durable):
        setting.check(feed)


def test_a_gap_is_reported_if_no_event_follows_it_in_the_queue() -> None:
    setting = Setting(delivery=100_000)
    feed = setting.subscribe()
    setting.writer.room = 0
    setting.commit(event(1, size=20_000))
    assert (feed.outcomes.dropped, setting.delivery.queued) == (1, (0, 0))
    setting.writer.room = 10
    setting.delivery.send_progress()
    setting.commit(event(2))
    assert setting.writer.out == []
    setting.delivery.send_waiting()
    assert setting.writer.out == [Gap(1, "n", (1, 1), (1, 1), 1, "slow"), [2]]
    setting.writer.room = 0
    setting.commit(event(3, size=20_000))
    setting.writer.room = 10
    setting.delivery.send_waiting()
    assert setting.writer.out[2:] == [Gap(1, "n", (1, 3), (1, 3), 1, "slow")]
    setting.check(feed)


def test_the_queue_holds_only_events_that_the_client_is_cleared_for() -> None:
    setting = Setting(delivery=100_000, clearance=1)
    feed = setting.subscribe()
    setting.writer.room = 0
    setting.commit(event(1, level=1), event(2, level=2), event(3, level=0))
    setting.writer.room = 10
    setting.delivery.send_waiting()
    assert setting.writer.deliveries == [[1, 3]]
    setting.check(feed)
    assert (feed.outcomes.denied, feed.outcomes.dropped) == (1, 0)


def test_queued_events_of_an_ended_subscription_are_dropped() -> None:
    setting = Setting(delivery=100_000)
    first, second = setting.subscribe(1), setting.subscribe(2)
    setting.writer.room = 0
    setting.commit(event(1), event(2))
    setting.delivery.remove_feed(1)
    assert (first.outcomes.seen, first.outcomes.dropped) == (2, 2)
    setting.delivery.close()
    assert (second.outcomes.seen, second.outcomes.dropped) == (2, 2)
    assert setting.delivery.queued == (0, 0)
    # Nothing would count them.
    setting.delivery.deliver_share(
        CommitShare([event(3)], deque([(1, [second])])), SharedEncodings()
    )
    assert setting.delivery.queued == (0, 0)


def test_events_removed_by_retention_are_reported_with_bounds() -> None:
    setting = Setting(*(event(n) for n in range(1, 7)), event(7, epoch=2), event(8, epoch=3))
    setting.log.slow = True
    feed = setting.subscribe(cursor=3, cut=(3, 8))
    del setting.log.events[:6]
    setting.log.begins_after["n"] = (1, 6)
    setting.log.asked[0][1][:4] = []
    setting.log.answer()
    assert setting.writer.out[0] == Gap(1, "n", (1, 3), (1, 6), 4, "retention")
    assert feed.outcomes.gone == 4
    setting.check(feed)


def test_progress_is_sent_once_for_each_move_and_behind_queued_events() -> None:
    setting = Setting()
    feed = setting.subscribe()
    setting.log.events += [event(1), event(2)]
    setting.delivery.send_progress()
    setting.delivery.send_progress()
    assert setting.writer.out == [Progress(((1, (("n", 1, 2),)),))]
    setting.writer.room = 0
    setting.commit(event(3))
    setting.delivery.send_progress()
    assert len(setting.writer.out) == 1
    setting.check(feed)


def test_stream_times_follow_the_events_of_subscriptions_that_requested_them() -> None:
    setting = Setting()
    timed, _ = setting.subscribe(1), setting.subscribe(2)
    timed.wants_stream_times = True
    times = (("n", 5),)
    setting.log.events.append(event(1))
    setting.delivery.send_progress(times)
    assert setting.writer.out == [
        Progress(((1, (("n", 1, 1),)), (2, (("n", 1, 1),)))),
        Progress((), ((1, times),)),
    ]
    setting.writer.out.clear()
    timed.is_active = False
    setting.delivery.send_progress(times)
    timed.is_active = True
    setting.writer.room = 0
    setting.commit(event(2))
    setting.delivery.send_progress(times)
    assert setting.writer.out == []
    setting.writer.room = 10
    setting.delivery.send_waiting()
    setting.delivery.send_progress(times)
    assert [type(each).__name__ for each in setting.writer.out] == ["list", "Progress"]
    timed.fall_behind(1)
    setting.writer.out.clear()
    setting.delivery.send_progress(times)
    assert setting.writer.out == []


def test_a_subscription_waits_at_the_end_of_the_log_for_a_pending_commit() -> None:
    setting = Setting(event(1), delivery=100_000)
    feed = setting.subscribe(cut=(1, 3))
    assert feed.awaits_commit
    # They were matched before the subscription.
    setting.log.events += [event(2), event(3)]
    setting.delivery.resume_after_commit()
    assert feed.state is FeedState.LIVE
    assert setting.writer.deliveries == [[1], [2, 3]]
    setting.check(feed)


def test_events_before_received_ones_wait_for_room_in_the_session() -> None:
    """The client has event 2 already."""
    setting = Setting(event(1), event(2))
    setting.log.events[1].origin = "other"
    setting.log.slow = True
    feed = setting.subscribe(cut=(1, 2))
    feed.skip_marks = {"other": (1, 2)}
    room, setting.writer.room = setting.writer.room, 0
    setting.log.answer()
    assert setting.writer.deliveries == []
    setting.writer.room, setting.log.slow = room, False
    setting.delivery.send_waiting()
    assert setting.writer.deliveries == [[1]]
    assert (feed.outcomes.seen, feed.outcomes.filtered) == (2, 1)
    setting.check(feed)


def test_withheld_events_are_passed_over_during_catch_up() -> None:
    setting = Setting(*map(event, range(1, 5)))
    setting.log.flows = KnownFlows("n", {}, WithheldFlows({"n/s": (((1, 0), None),)}))
    for each in setting.log.events[1:3]:
        each.is_withheld = True
    feed = setting.subscribe(cut=(1, 4))
    assert setting.writer.deliveries == [[1], [4]] and feed.state is FeedState.LIVE
    setting.check(feed)
