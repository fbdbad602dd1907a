"""Feeding subscriptions of one link with what is recovered, until their log can go on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from broker.delivery.feed import Feed, Pace
from broker.delivery.pacing import Pacing
from broker.delivery.recovery import Lost, Recovering
from broker.delivery.sending import Sending
from broker.event.envelope import Liveness
from broker.event.place import Mark
from broker.event.placeholder import placeholder_code
from broker.ingest.late_judgement import wants_stream
from broker.log.chunk import split_by_size
from broker.log.logged_event import LoggedEvent
from broker.transport.clock import IClock
from broker.wire.event_batch import encode_events
from broker.wire.messages import Gap

#: Seconds after which one that waits for an event's time looks whether it is wanted still.
LONGEST_REST = 1.0


class RecoveringFeeds:
    """Each recovery goes on by itself, as far as the session takes its events."""

    def __init__(
        self,
        feeds: Mapping[int, Feed],
        sending: Sending,
        *,
        delivery: int,
        clock: IClock,
        tell_lost: Callable[[Feed, Lost], object],
        recovered: Callable[[Feed, Mapping[str, Mark]], None],
        failed: Callable[[Feed, Failure], None],
    ) -> None:
        """`feeds` are all that the link has at any time; `delivery` is the size of one in bytes.
        `tell_lost` sends a gap, `recovered` is told where the log goes on."""
        self._feeds = feeds
        self._sending = sending
        self._outlet = sending.outlet
        self._delivery = delivery
        self._clock = clock
        self._tell_lost = tell_lost
        self._recovered = recovered
        self._failed = failed
        self._waiting: list[Deferred[None]] = []

    def begin(
        self,
        feed: Feed,
        recovering: Recovering,
        joins: Mapping[str, Mark],
        pacing: Pacing,
        end: Callable[[], object] | None,
    ) -> None:
        """Feed a subscription with what is recovered. Then its log goes on behind `joins`, or, with
        `end`, that is its end."""
        feed.pace = Pace.RECOVERING
        running = Deferred.fromCoroutine(self._run(feed, recovering, joins, pacing, end))
        running.addErrback(lambda failure: self._could_not(feed, recovering, failure))

    def pump(self) -> None:
        """The session takes more, or never will: who waits looks again."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.callback(None)

    async def _run(
        self,
        feed: Feed,
        recovering: Recovering,
        joins: Mapping[str, Mark],
        pacing: Pacing,
        end: Callable[[], object] | None,
    ) -> None:
        while events := await recovering.more():
            if self._is_fed(feed):
                self._tell_all(feed, recovering.lost_before())
            if not await self._send(feed, events, pacing):
                recovering.cancel()
                return
        if not self._is_fed(feed):
            recovering.cancel()
            return
        self._tell_all(feed, recovering.lost())
        reached = {o: max(mark, joins.get(o, mark)) for o, mark in recovering.reached().items()}
        self._recovered(feed, {**joins, **reached})
        if end is not None:
            end()

    def _tell_all(self, feed: Feed, lost: Sequence[Lost]) -> None:
        for each in lost:
            self._tell_lost(feed, each)

    async def _send(self, feed: Feed, events: Sequence[LoggedEvent], pacing: Pacing) -> bool:
        """Send events as fast as the session and the pace allow; False if nobody wants them."""
        if not pacing.is_free:
            return await self._send_paced(feed, events, pacing)
        for start, end in split_by_size(self._delivery, events):
            if not await self._room(feed):
                return False
            self._send_now(feed, list(events[start:end]))
        return self._is_fed(feed)

    async def _send_paced(self, feed: Feed, events: Sequence[LoggedEvent], pacing: Pacing) -> bool:
        for event in events:
            while (wait := pacing.wait(event.arrival, self._clock.seconds())) > 0:
                await self._rest(min(wait, LONGEST_REST))
                if not self._is_fed(feed):
                    return False
            if not await self._room(feed):
                return False
            self._send_now(feed, [event])
            pacing.sent(self._clock.seconds())
        return self._is_fed(feed)

    def _send_now(self, feed: Feed, events: list[LoggedEvent]) -> None:
        """Send events, and a gap in the place of each that was refused on its way here."""
        for code, group in groupby(events, key=lambda event: placeholder_code(event.document)):
            run = list(group)
            if code is None:
                # Counted as of now: that a page was looked at elsewhere says nothing of what was.
                feed.outcomes.seen += len(run)
                self._sending.send(encode_events(run), run, [(len(run), [feed])], Liveness.RECOVERY)
            for event in run:
                feed.told[event.origin] = event.mark
                if code is not None and wants_stream(feed, event):
                    feed.outcomes.gone += 1
                    mark = event.mark
                    self._outlet.send_message(Gap(feed.number, event.origin, mark, mark, 1, code))

    async def _room(self, feed: Feed) -> bool:
        """Wait until the session takes more; False if the subscription is over."""
        while self._is_fed(feed) and (feed.paused or not self._outlet.writable):
            waits: Deferred[None] = Deferred()
            self._waiting.append(waits)
            await waits
        return self._is_fed(feed)

    def _rest(self, seconds: float) -> Deferred[Any]:
        later: Deferred[Any] = Deferred()
        self._clock.callLater(seconds, later.callback, None)
        return later

    def _is_fed(self, feed: Feed) -> bool:
        return self._feeds.get(feed.number) is feed and feed.pace is Pace.RECOVERING

    def _could_not(self, feed: Feed, recovering: Recovering, failure: Failure) -> None:
        recovering.cancel()
        if self._is_fed(feed):
            self._failed(feed, failure)
