"""Delivery to one client session (DCP D21, DESIGN 4, 5).

Commits are sent directly while the session has room. In a full session, a subscription that blocks
reads the log later, at its own cursor. Events of others wait in bounded queues; dropped ones are
counted and reported. So a slow subscriber costs bounded memory and delays no other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from twisted.python.failure import Failure

from broker.delivery.backlog import Backlog
from broker.delivery.catch_up import CatchUp, Select
from broker.delivery.commit_share import (
    CommitShare,
    Portion,
    QueueLimits,
    RecipientRun,
    SharedEncodings,
    encode_runs,
    take_runs,
)
from broker.delivery.delivery_sender import DeliverySender, SessionWriter
from broker.delivery.feed import Feed, FeedState
from broker.delivery.gaps import GapRecovery, make_gap
from broker.delivery.held_flows import HeldFlows
from broker.delivery.pacing import Pacing
from broker.delivery.recovered_feeds import RecoveredFeeds
from broker.delivery.recovery_contract import ActiveRecovery, LostRange
from broker.delivery.site_notices import SessionSiteNotices
from broker.errors import QueueFull
from broker.event.envelope import Liveness
from broker.event.place import Mark
from broker.ingest.late_validation import LateValidator
from broker.log.event_log import EventLog
from broker.log.logged_event import LoggedEvent
from broker.streams.dropped_count import DroppedCount
from broker.streams.queue_policy import BLOCK
from broker.subscriptions.start_position import first_serial_after
from broker.transport.clock import IClock
from broker.wire.codec import WireTimes
from broker.wire.event_batch import encode_events
from broker.wire.messages import Progress


class SessionDelivery:
    """Feeds the subscriptions of one session."""

    def __init__(
        self,
        writer: SessionWriter,
        *,
        clearance: int,
        limits: QueueLimits,
        log: EventLog,
        select: Select,
        on_failed: Callable[[Feed, Failure], None],
        clock: IClock,
        late_validator: LateValidator | None = None,
    ) -> None:
        """`clearance` is a rank. `on_failed`: a subscription can not be fed."""
        self._writer = writer
        self.clearance = clearance
        self._limits = limits
        self._log = log
        self._on_failed = on_failed
        self._feeds: dict[int, Feed] = {}
        self._backlog = Backlog(limits)
        self._held_flows = HeldFlows(self._feeds, clearance)
        self.hold_flows = self._held_flows.hold_flows
        self._sender = DeliverySender(writer)
        self.site_notices = SessionSiteNotices(self._feeds, writer, self._backlog, on_failed)
        unpaced = self._feed_unpaced
        self.gap_recovery = GapRecovery(
            *(self._feeds, self._sender, log, self._backlog), clearance, unpaced
        )
        self._catch_up = CatchUp(
            self._feeds,
            self._sender,
            clearance=clearance,
            delivery_bytes=limits.delivery,
            log=log,
            select=select,
            recover_trimmed=self.gap_recovery.recover_trimmed,
            on_failed=on_failed,
            on_wait=lambda: self.on_wait(self),
            notices=self.site_notices,
            late_validator=late_validator,
        )
        self._recovered_feeds = RecoveredFeeds(
            *(self._feeds, self._sender),
            delivery_bytes=limits.delivery,
            clock=clock,
            report_lost=self._report_lost,
            on_recovered=self._continue_from_log,
            on_failed=on_failed,
        )
        self.is_closed = False
        self.on_wait: Callable[[SessionDelivery], object] = lambda _: None
        """A subscription waits for the next commit; call `resume_after_commit` then."""

    # ------------------------------------------------------------------ subscriptions

    @property
    def feeds(self) -> Collection[Feed]:
        return self._feeds.values()

    @property
    def queued(self) -> tuple[int, int]:
        """Events and bytes in the transient queue."""
        return len(self._backlog), self._backlog.bytes

    def count_queued_for(self, feed: Feed) -> int:
        return self._backlog.count_for(feed)

    def add_feed(self, feed: Feed) -> None:
        """Add a subscription; nothing is sent before `start_feed`."""
        self._feeds[feed.number] = feed
        self._backlog.add_feed(feed)

    def start_feed(self, number: int) -> None:
        """Feed a subscription that the client knows as accepted."""
        feed = self._feeds[number]
        feed.state = FeedState.CATCHING_UP
        self.gap_recovery.report_unavailable(feed)
        if feed.state is not FeedState.CATCHING_UP:
            return
        last = feed.newest_at_start[1]
        newest = feed.cursor > last and self._log.bounds.last <= last
        behind = self._catch_up.is_ahead_of_log(feed) or self._catch_up.has_loss(feed)
        if newest and not feed.is_paused and not behind:
            # It needs no event from the log. The matcher did not know it for events of a pending
            # commit.
            feed.go_live(feed.cursor)
            self.site_notices.begin_live(feed)
        else:
            self._catch_up.start_feed(feed)

    def report_losses(self) -> None:
        """Report lost own events (`broker.log.history`) to live subscriptions; others report them
        later."""
        for feed in self._feeds.values():
            if feed.state is FeedState.LIVE:
                self._catch_up.report_losses(feed)

    def feed_from_recovery(
        self,
        feed: Feed,
        recovery: ActiveRecovery,
        log_starts: Mapping[str, Mark],
        pacing: Pacing,
        on_end: Callable[[], object] | None,
    ) -> None:
        """Feed from a recovery, then from the log behind `log_starts`; with `on_end` end
        instead."""
        self._recovered_feeds.start_feed(feed, recovery, log_starts, pacing, on_end)

    def set_paused(self, number: int, paused: bool) -> None:
        """Pause a durable subscription, or resume it at its cursor."""
        feed = self._feeds[number]
        feed.is_paused = paused
        if paused and feed.state is FeedState.LIVE:
            # All other committed events were delivered.
            self._fall_behind(feed, self._log.bounds.last + 1)
        elif not paused:
            self.send_waiting()

    def _feed_unpaced(
        self, feed: Feed, recovery: ActiveRecovery, log_starts: Mapping[str, Mark]
    ) -> None:
        self.feed_from_recovery(feed, recovery, log_starts, Pacing(0.0, 0.0), None)

    def _report_lost(self, feed: Feed, lost: LostRange) -> None:
        self.gap_recovery.report_gap(feed, lost.origin, lost.after, lost.upto, lost.reason)

    def _continue_from_log(self, feed: Feed, log_starts: Mapping[str, Mark]) -> None:
        feed.skip_marks = dict(log_starts)
        feed.cursor = first_serial_after(self._log, log_starts)
        feed.state = FeedState.CATCHING_UP
        # The recovery covered all events up to there.
        reported = feed.reported_marks
        moved = tuple((o, *mark) for o, mark in log_starts.items() if reported.get(o) != mark)
        feed.reported_marks.update(log_starts)
        if moved:
            self._writer.send_message(Progress(((feed.number, moved),)))
        self.gap_recovery.report_unavailable(feed)
        if feed.state is FeedState.CATCHING_UP:
            self._catch_up.start_feed(feed)

    def remove_feed(self, number: int) -> Feed | None:
        feed = self._feeds.pop(number, None)
        if feed is not None:
            feed.count_filtered(self._log.bounds.last + 1)
            feed.count_elsewhere(self._log.unlogged_places)
            self._backlog.remove_feed(feed)
            self._recovered_feeds.wake_waiting()
        return feed

    def find_feed(self, number: int) -> Feed | None:
        return self._feeds.get(number)

    def close(self) -> None:
        self.is_closed = True
        self._recovered_feeds.wake_waiting()
        self._backlog.drop_all_events()
        for number in list(self._feeds):
            self.remove_feed(number)

    # ------------------------------------------------------------------ live

    def count_denied(self, levels: Mapping[int, int]) -> None:
        """Count the events of a commit, by level, that the client may not read."""
        denied = sum(count for level, count in levels.items() if level > self.clearance)
        for feed in self._feeds.values() if denied else ():
            if feed.state is FeedState.LIVE:
                feed.outcomes.filtered -= denied
                feed.outcomes.denied += denied

    def deliver_share(self, share: CommitShare, shared: SharedEncodings) -> None:
        if self._held_flows.numbers:
            share = self._held_flows.without_held(share)
            if not share.events:
                return
        events, runs = share.events, share.runs
        if self.site_notices.has_waiting:
            self.site_notices.send_due()
        if self._backlog.has_pending:
            self._enqueue(events, runs)
            return
        done = 0
        for portion in shared.split_portions(self._limits.delivery, events):
            if not self._writer.writable:
                self._enqueue(events[done:], runs)
                return
            count = len(portion.events)
            runs_of_portion = list(runs) if count == len(events) else take_runs(runs, count)
            self._send_live(portion, runs_of_portion, shared)
            done += count

    def _send_live(
        self, portion: Portion, runs: list[RecipientRun], shared: SharedEncodings
    ) -> None:
        events = portion.events
        live: list[RecipientRun] = []
        whole = portion.level <= self.clearance
        for count, feeds in runs:
            feeds = self._select_live(feeds, count)
            live.append((count, feeds))
            whole = whole and bool(feeds)
        if whole:
            encoded = portion.encoded or shared.encode_portion(portion)
            self._sender.send_delivery(encoded, events, live, Liveness.LIVE)
            return
        picked = []
        concerned = []
        start = 0
        for count, feeds in live:
            for event in events[start : start + count] if feeds else ():
                if event.level <= self.clearance:
                    picked.append(event)
                    concerned.append(feeds)
            start += count
        if picked:
            self._sender.send_delivery(
                shared.encode_selection(picked), picked, encode_runs(concerned), Liveness.LIVE
            )

    def _select_live(self, feeds: Sequence[Feed], count: int) -> list[Feed]:
        """Return the live feeds; take back `count` of each one's filtered events."""
        live = []
        for feed in feeds:
            if feed.state is FeedState.LIVE:
                feed.outcomes.filtered -= count
                live.append(feed)
        return live

    def _enqueue(self, events: list[LoggedEvent], runs: Iterable[RecipientRun]) -> None:
        """Queue events, except for subscriptions that block: these fall behind."""
        if self.is_closed:
            return
        start = 0
        for count, feeds in runs:
            for feed in feeds:
                if feed.policy is BLOCK and feed.state is FeedState.LIVE:
                    feed.fall_behind(events[start].serial)
            live = self._select_live(feeds, count)
            for event in events[start : start + count] if live else ():
                if event.level <= self.clearance:
                    self._backlog.add_event(event, live)
            start += count
        for feed in self._backlog.take_failed():
            self._end_full(feed, "the subscription's queue is full: it takes events too slowly")

    def _end_full(self, feed: Feed, text: str) -> None:
        if self._feeds.get(feed.number) is feed:
            self._on_failed(feed, Failure(QueueFull(text)))

    def reread_from_log(self, serial: int, streams: Collection[str]) -> None:
        """Let live subscriptions to these streams read the log from `serial` on."""
        for feed in list(self._feeds.values()):
            pattern = feed.pattern
            if feed.state is FeedState.LIVE and any(
                not stream or pattern is None or pattern.matches(stream) for stream in streams
            ):
                self._fall_behind(feed, serial)
                self._catch_up.continue_feed(feed)

    def _fall_behind(self, feed: Feed, serial: int) -> None:
        """Let a live subscription read the log from its first queued event, or from `serial` on."""
        waiting, lost, unlogged = self._backlog.take_events_for(feed)
        feed.fall_behind(serial)
        if waiting:
            feed.outcomes.seen -= len(waiting) + lost
            feed.outcomes.dropped -= lost
            feed.cursor = min(serial, waiting[0].serial)
        self.gap_recovery.recover_or_report_queued(feed, unlogged)

    # ------------------------------------------------------------------ room in the session

    def send_waiting(self) -> None:
        """Send as far as the session has room."""
        if self.is_closed:
            return
        while self._backlog.has_pending and self._writer.writable:
            self.site_notices.send_due()
            losses, taken = self._backlog.take_delivery(self.site_notices.cuts())
            for feed, origin, lost in losses:
                self._writer.send_message(make_gap(feed, origin, lost))
            if taken:
                events = [event for event, _ in taken]
                runs = encode_runs(feeds for _, feeds in taken)
                self._sender.send_delivery(encode_events(events), events, runs, Liveness.LIVE)
        self.site_notices.send_due()
        self._recovered_feeds.wake_waiting()
        for feed in list(self._feeds.values()):
            if feed.state is FeedState.CATCHING_UP:
                self._catch_up.continue_feed(feed)

    # ------------------------------------------------------------------ from the log

    def recover_or_report(self, origin: str, after: Mark, last: Mark, reason: str) -> None:
        """Recover the range behind `after` up to `last`, or report a gap."""
        self.gap_recovery.recover_or_report(origin, after, last, reason)

    def report_dropped(
        self, origin: str, after: Mark, last: Mark | None, dropped: Sequence[DroppedCount]
    ) -> None:
        """Report events behind `after` up to `last` that a queue policy dropped on the way."""
        for feed in self.gap_recovery.report_dropped(origin, after, last, dropped):
            self._end_full(feed, "the subscription's queue at another node is full")

    def resume_after_commit(self) -> None:
        for feed in list(self._feeds.values()):
            if feed.awaits_commit:
                feed.awaits_commit = False
                self._catch_up.continue_feed(feed)

    # ------------------------------------------------------------------ positions and counts

    def roll_back(self, serial: int) -> None:
        for feed in self._feeds.values():
            feed.roll_back(serial)

    def update_outcomes(self) -> None:
        elsewhere = self._log.unlogged_places if self._feeds else 0
        for feed in self._feeds.values():
            feed.count_filtered(self._log.bounds.last + 1)
            feed.count_elsewhere(elsewhere)

    def send_progress(self, times: WireTimes = ()) -> None:
        """Send positions that moved without a delivery, so that a rare query keeps no old position.

        `times` are the stream times of all origins.
        """
        if self._backlog.has_pending or not self._writer.writable:
            return
        rows = [
            (feed.number, moved)
            for feed in self._feeds.values()
            if (moved := feed.take_moved_marks(self._log))
        ]
        if rows:
            self._writer.send_message(Progress(tuple(rows)))
        for message in self._held_flows.take_messages():
            self._writer.send_message(message)
        if times:
            # The size of a message is bounded.
            for feed in self._feeds.values():
                if _gets_stream_times(feed):
                    self._writer.send_message(Progress((), ((feed.number, times),)))


def _gets_stream_times(feed: Feed) -> bool:
    """Return whether all committed matching events have been sent."""
    return feed.wants_stream_times and feed.is_active and feed.state is FeedState.LIVE
