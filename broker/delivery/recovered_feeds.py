"""Subscriptions that a recovery feeds with missed events before the log feeds them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from broker.delivery.delivery_sender import DeliverySender
from broker.delivery.feed import Feed, FeedState
from broker.delivery.pacing import Pacing
from broker.delivery.recovery_contract import ActiveRecovery, LostRange
from broker.event.envelope import Liveness
from broker.event.place import Mark
from broker.event.placeholder import placeholder_code
from broker.ingest.late_validation import matches_stream
from broker.log.chunk import split_by_size
from broker.log.logged_event import LoggedEvent
from broker.transport.clock import IClock
from broker.transport.sleep import sleep
from broker.wire.event_batch import encode_events
from broker.wire.messages import Gap

#: Seconds after which a paced feed checks whether its subscription exists.
MAX_SLEEP = 1.0


class RecoveredFeeds:
    """Recoveries of one session, each as fast as the session takes its events."""

    def __init__(
        self,
        feeds: Mapping[int, Feed],
        sender: DeliverySender,
        *,
        delivery_bytes: int,
        clock: IClock,
        report_lost: Callable[[Feed, LostRange], object],
        on_recovered: Callable[[Feed, Mapping[str, Mark]], None],
        on_failed: Callable[[Feed, Failure], None],
    ) -> None:
        """`report_lost` sends a gap. `on_recovered` gets the marks behind which the log
        continues."""
        self._feeds = feeds
        self._sender = sender
        self._writer = sender.writer
        self._delivery_bytes = delivery_bytes
        self._clock = clock
        self._report_lost = report_lost
        self._on_recovered = on_recovered
        self._on_failed = on_failed
        self._waiting: list[Deferred[None]] = []

    def start_feed(
        self,
        feed: Feed,
        recovery: ActiveRecovery,
        log_starts: Mapping[str, Mark],
        pacing: Pacing,
        on_end: Callable[[], object] | None,
    ) -> None:
        """Feed from a recovery. Then the log continues behind `log_starts`, or with `on_end` the
        subscription ends."""
        feed.state = FeedState.RECOVERING
        running = Deferred.fromCoroutine(
            self._run_recovery(feed, recovery, log_starts, pacing, on_end)
        )
        running.addErrback(lambda failure: self._fail_feed(feed, recovery, failure))

    def wake_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.callback(None)

    async def _run_recovery(
        self,
        feed: Feed,
        recovery: ActiveRecovery,
        log_starts: Mapping[str, Mark],
        pacing: Pacing,
        on_end: Callable[[], object] | None,
    ) -> None:
        # A session without room holds no events of its recoveries.
        while await self._wait_for_room(feed) and (events := await recovery.next_events()):
            if self._is_recovering(feed):
                self._report_all_lost(feed, recovery.preceding_losses())
            if not await self._send_events(feed, events, pacing):
                recovery.cancel()
                return
        if not self._is_recovering(feed):
            recovery.cancel()
            return
        self._report_all_lost(feed, recovery.remaining_losses())
        reached = {
            o: max(mark, log_starts.get(o, mark)) for o, mark in recovery.open_range_ends().items()
        }
        self._on_recovered(feed, {**log_starts, **reached})
        if on_end is not None:
            on_end()

    def _report_all_lost(self, feed: Feed, lost: Sequence[LostRange]) -> None:
        for each in lost:
            self._report_lost(feed, each)

    async def _send_events(self, feed: Feed, events: Sequence[LoggedEvent], pacing: Pacing) -> bool:
        """Return False if the subscription ended."""
        if not pacing.is_unlimited:
            return await self._send_paced(feed, events, pacing)
        for start, end in split_by_size(self._delivery_bytes, events):
            if not await self._wait_for_room(feed):
                return False
            self._send_now(feed, list(events[start:end]))
        return self._is_recovering(feed)

    async def _send_paced(self, feed: Feed, events: Sequence[LoggedEvent], pacing: Pacing) -> bool:
        for event in events:
            while (wait := pacing.seconds_until_due(event, self._clock.seconds())) > 0:
                await sleep(self._clock, min(wait, MAX_SLEEP))
                if not self._is_recovering(feed):
                    return False
            if not await self._wait_for_room(feed):
                return False
            self._send_now(feed, [event])
            pacing.record_sent(self._clock.seconds())
        return self._is_recovering(feed)

    def _send_now(self, feed: Feed, events: list[LoggedEvent]) -> None:
        """Send events, and a gap in place of each rejected one."""
        for code, group in groupby(events, key=lambda event: placeholder_code(event.document)):
            run = list(group)
            if code is None:
                # The source does not report how many events it has evaluated.
                feed.outcomes.seen += len(run)
                self._sender.send_delivery(
                    encode_events(run), run, [(len(run), [feed])], Liveness.RECOVERY
                )
            for event in run:
                feed.reported_marks[event.origin] = event.mark
                if code is not None and matches_stream(feed, event):
                    feed.outcomes.gone += 1
                    mark = event.mark
                    self._writer.send_message(Gap(feed.number, event.origin, mark, mark, 1, code))

    async def _wait_for_room(self, feed: Feed) -> bool:
        """Return False if the subscription ended."""
        while self._is_recovering(feed) and (feed.is_paused or not self._writer.writable):
            waits: Deferred[None] = Deferred()
            self._waiting.append(waits)
            await waits
        return self._is_recovering(feed)

    def _is_recovering(self, feed: Feed) -> bool:
        return self._feeds.get(feed.number) is feed and feed.state is FeedState.RECOVERING

    def _fail_feed(self, feed: Feed, recovery: ActiveRecovery, failure: Failure) -> None:
        recovery.cancel()
        if self._is_recovering(feed):
            self._on_failed(feed, failure)
