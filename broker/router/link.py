"""The output component's end of one client session (DCP D21, DESIGN 4, 5).

A link writes once per batch. Commits go straight out while the session can take them. When it can
not, each subscription follows its stated rule: a durable one falls behind and is fed from the log
at its own cursor; a transient one's events wait in one bounded queue, from which the oldest are
dropped, counted, and told. So a slow subscriber costs bounded memory and delays nobody.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from broker.event.envelope import Liveness
from broker.router.feed import Feed, Pace
from broker.router.outgoing import Outgoing, QueueLimits, portions, split_at
from broker.session.batches import EncodedEvents, encode_delivery, encode_events
from broker.session.messages import Gap, Message, Progress
from broker.store.event_log import EventLog
from broker.store.records import LoggedEvent

#: A page of the log that one catching-up subscription reads at a time: so many events, of so many
#: full deliveries.
PAGE_EVENTS = 256
PAGE_DELIVERIES = 2


class Outlet(Protocol):
    """The session as a link writes to it."""

    @property
    def writable(self) -> bool: ...
    def send_message(self, message: Message) -> None: ...
    def send_delivery(self, data: bytes) -> None: ...


class Link:
    """Feeds the subscriptions of one session."""

    def __init__(
        self,
        outlet: Outlet,
        *,
        clearance: int,
        limits: QueueLimits,
        log: EventLog,
        select: Callable[[int, Sequence[bytes], Liveness], Coroutine[Any, Any, list[bool]]],
        failed: Callable[[Feed, Failure], None],
    ) -> None:
        """`clearance` is a rank; `select` says which documents match a matcher's number; `failed`
        is told when a subscription can not be fed from the log."""
        self._outlet = outlet
        self._clearance = clearance
        self._limits = limits
        self._log = log
        self._select = select
        self._failed = failed
        self._feeds: dict[int, Feed] = {}
        self._queue: deque[Outgoing] = deque()
        self._queue_bytes = 0
        self._untold = False  # something was dropped, and its subscriber does not know yet
        self._previous: tuple[str, int, int] | None = None
        self._behind: deque[Feed] = deque()  # those that wait for their turn to read the log
        self._reading = False
        self.closed = False

    # ------------------------------------------------------------------ subscriptions

    @property
    def feeds(self) -> Iterable[Feed]:
        """The link's subscriptions."""
        return self._feeds.values()

    @property
    def queued(self) -> tuple[int, int]:
        """Events and bytes that wait for a transient subscriber."""
        return len(self._queue), self._queue_bytes

    def waiting_for(self, feed: Feed) -> int:
        """How many of the queued events are for this subscription."""
        return sum(feed in one.feeds for one in self._queue)

    def add(self, feed: Feed) -> None:
        """Take a subscription; nothing is sent for it before `start`."""
        self._feeds[feed.number] = feed

    def start(self, number: int) -> None:
        """Begin to feed a subscription from its cursor on: it was told that it is accepted."""
        feed = self._feeds[number]
        feed.pace = Pace.CATCHING_UP
        if feed.cursor > feed.given[1] and self._log.bounds.last <= feed.given[1]:
            # It wants nothing older than what is to come: live at once, without a look at the
            # log. Events of a commit under way are not for it; the matcher did not know it.
            feed.go_live(feed.cursor)
            return
        self._read_on(feed)

    def remove(self, number: int) -> Feed | None:
        """Stop feeding a subscription; what waits for it alone is dropped."""
        feed = self._feeds.pop(number, None)
        if feed is not None:
            feed.settle(self._log.bounds.last + 1)
            if self._queue:
                self._drop_for(feed)
        return feed

    def get(self, number: int) -> Feed | None:
        """The subscription with the client's number."""
        return self._feeds.get(number)

    def close(self) -> None:
        """The session is over."""
        self.closed = True
        while self._queue:
            self._drop_oldest()
        for number in list(self._feeds):
            self.remove(number)

    # ------------------------------------------------------------------ live

    def deliver(
        self, outgoing: list[Outgoing], shared: dict[tuple[int, ...], EncodedEvents]
    ) -> None:
        """Events of a commit, in order. `shared` keeps encodings for links that get the same."""
        if self._queue or self._untold:
            self._enqueue(outgoing)
            return
        for start, end in portions(self._limits.delivery, [one.event for one in outgoing]):
            if not self._outlet.writable:
                self._enqueue(outgoing[start:])
                return
            self._send_live(outgoing[start:end], shared)

    def _send_live(
        self, outgoing: list[Outgoing], shared: dict[tuple[int, ...], EncodedEvents]
    ) -> None:
        events = []
        feeds = []
        for one in outgoing:
            concerned = self._concerned(one)
            if concerned:
                events.append(one.event)
                feeds.append(concerned)
        if not events:
            return
        key = tuple([event.offset for event in events])
        encoded = shared.get(key)
        if encoded is None:
            encoded = shared[key] = encode_events(self._log.origin, events)
        self._send(encoded, events, feeds, Liveness.LIVE)

    def _concerned(self, one: Outgoing) -> list[Feed]:
        """The subscriptions that get this event live; those not cleared for it are counted."""
        event = one.event
        concerned = [feed for feed in one.feeds if feed.pace is Pace.LIVE]
        for feed in concerned:
            feed.matched_live()
        if event.level <= self._clearance:
            return concerned
        for feed in concerned:
            feed.outcomes.denied += 1
        return []

    def _enqueue(self, outgoing: list[Outgoing]) -> None:
        """The session can not take more now: each subscription by its rule."""
        if self.closed:
            return
        for one in outgoing:
            for feed in one.feeds:
                if feed.durable and feed.pace is Pace.LIVE:
                    feed.fall_behind(one.event.offset)
            one.feeds = self._concerned(one)
            if one.feeds:
                self._queue.append(one)
                self._queue_bytes += one.event.size
        while len(self._queue) > self._limits.events or self._queue_bytes > self._limits.bytes:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        one = self._queue.popleft()
        self._queue_bytes -= one.event.size
        for feed in one.feeds:
            feed.outcomes.dropped += 1
            feed.dropped_count += 1
            feed.dropped_first = feed.dropped_first or one.event.mark
            feed.dropped_last = one.event.mark
            self._untold = True

    def _drop_for(self, feed: Feed) -> None:
        """Its subscription is over: nothing waits for it any more."""
        kept = []
        for one in self._queue:
            if feed in one.feeds:
                one.feeds.remove(feed)
                feed.outcomes.dropped += 1
            if one.feeds:
                kept.append(one)
        self._queue = deque(kept)
        self._queue_bytes = sum(one.event.size for one in kept)

    # ------------------------------------------------------------------ when there is room again

    def pump(self) -> None:
        """Send what waits, as far as the session takes it."""
        if self.closed:
            return
        if self._untold and self._outlet.writable:
            self._tell_dropped()
        while self._queue and self._outlet.writable:
            events = [self._queue[i].event for i in range(min(len(self._queue), PAGE_EVENTS))]
            _, end = next(iter(portions(self._limits.delivery, events)))
            portion = [self._queue.popleft() for _ in range(end)]
            self._queue_bytes -= sum(one.event.size for one in portion)
            events = events[:end]
            encoded = encode_events(self._log.origin, events)
            self._send(encoded, events, [one.feeds for one in portion], Liveness.LIVE)
        for feed in list(self._feeds.values()):
            if feed.pace is Pace.CATCHING_UP:
                self._read_on(feed)

    def _tell_dropped(self) -> None:
        self._untold = False
        for feed in self._feeds.values():
            if feed.dropped_first is not None:
                self._outlet.send_message(
                    Gap(
                        number=feed.number,
                        origin=self._log.origin,
                        first=feed.dropped_first,
                        last=feed.dropped_last,
                        count=feed.dropped_count,
                        reason="slow",
                    )
                )
                feed.dropped_first, feed.dropped_count = None, 0

    # ------------------------------------------------------------------ from the log

    def committed(self) -> None:
        """The log has grown: subscriptions that waited at its end look again."""
        for feed in list(self._feeds.values()):
            if feed.waiting_for_commit:
                feed.waiting_for_commit = False
                self._read_on(feed)

    def _read_on(self, feed: Feed) -> None:
        if not feed.reading:
            feed.reading = True
            self._behind.append(feed)
        if not self._reading:
            self._reading = True
            Deferred.fromCoroutine(self._catch_up())

    async def _catch_up(self) -> None:
        """Read pages until the log's end, or until the session is full: for one subscription at a
        time, a page each in turn. If all read at once, most would find the session full and read
        the same again."""
        page_bytes = PAGE_DELIVERIES * self._limits.delivery
        while self._behind:
            feed = self._behind[0]
            try:
                if self._is_behind(feed):
                    events = await self._log.read(feed.cursor, PAGE_EVENTS, page_bytes)
                    await self._feed_page(feed, events)
                    self._behind.rotate(-1)
                    continue
            except Exception:
                self._catch_up_failed(Failure(), feed)
            self._behind.popleft()
            feed.reading = False
        self._reading = False

    def _is_behind(self, feed: Feed) -> bool:
        """Whether there is something to read for it now; at the log's end it goes live."""
        if not (self._is_fed(feed) and self._outlet.writable):
            return False
        bounds = self._log.bounds
        if feed.cursor <= bounds.last:
            return True
        if (bounds.epoch, bounds.last) >= feed.given:
            feed.go_live(feed.cursor)
        else:
            # Events that were under way when it subscribed: the next commit brings them.
            feed.waiting_for_commit = True
        return False

    def _is_fed(self, feed: Feed) -> bool:
        return self._feeds.get(feed.number) is feed and feed.pace is Pace.CATCHING_UP

    async def _feed_page(self, feed: Feed, events: list[LoggedEvent]) -> None:
        if not self._is_fed(feed):
            return
        bounds = self._log.bounds
        first = events[0].offset if events else bounds.first
        if first > feed.cursor:
            # In the epoch of what follows: a position there must not lie behind the gap's end.
            self._tell_gone(feed, first, events[0].epoch if events else bounds.epoch)
        for liveness, part in split_at(events, feed.cut):
            documents = [event.document for event in part]
            selected = await self._select(feed.matcher_number, documents, liveness)
            if not self._is_fed(feed):
                return
            if not self._send_selected(feed, part, selected, liveness):
                return

    def _catch_up_failed(self, failure: Failure, feed: Feed) -> None:
        if self._feeds.get(feed.number) is feed:
            self._failed(feed, failure)

    def _send_selected(
        self, feed: Feed, part: list[LoggedEvent], selected: list[bool], liveness: Liveness
    ) -> bool:
        """Send what was selected; False if the session was full before the end.

        The session may have been filled for others while this page was read.
        """
        rank = self._clearance
        cleared = [i for i, yes in enumerate(selected) if yes and part[i].level <= rank]
        looked_at, sent = len(part), 0
        for start, end in portions(self._limits.delivery, [part[i] for i in cleared]):
            if not self._outlet.writable:
                looked_at = cleared[start]
                break
            events = [part[i] for i in cleared[start:end]]
            encoded = encode_events(self._log.origin, events)
            self._send(encoded, events, [[feed]] * len(events), liveness)
            sent = end
        matched = sum(selected[:looked_at])
        feed.outcomes.seen += looked_at
        feed.outcomes.filtered += looked_at - matched
        feed.outcomes.denied += matched - sent
        if looked_at:
            feed.cursor = part[looked_at - 1].offset + 1
            feed.scanned = part[looked_at - 1].mark
        return looked_at == len(part)

    def _tell_gone(self, feed: Feed, first: int, epoch: int) -> None:
        expected, feed.cursor = feed.cursor, first
        feed.outcomes.gone += first - expected
        self._outlet.send_message(
            Gap(
                number=feed.number,
                origin=self._log.origin,
                first=(max(feed.told[0], 1), expected),
                last=(epoch, first - 1),
                count=first - expected,
                reason="retention",
            )
        )

    # ------------------------------------------------------------------ sending

    def _send(
        self,
        encoded: EncodedEvents,
        events: Sequence[LoggedEvent],
        feeds: Sequence[list[Feed]],
        liveness: Liveness,
    ) -> None:
        for event, concerned in zip(events, feeds, strict=True):
            for feed in concerned:
                feed.outcomes.delivered += 1
                feed.told = event.mark
        numbers = [tuple([feed.number for feed in concerned]) for concerned in feeds]
        self._outlet.send_delivery(encode_delivery(encoded, numbers, liveness, self._previous))
        last = events[-1]
        self._previous = (self._log.origin, last.epoch, last.offset)

    def begin_again(self, offset: int) -> None:
        """A failed commit took its places back: `offset` will be given again."""
        for feed in self._feeds.values():
            feed.begin_again(offset)

    def settle(self) -> None:
        """Bring the counts of live subscriptions up to the log's end."""
        for feed in self._feeds.values():
            feed.settle(self._log.bounds.last + 1)

    def progress(self) -> None:
        """Tell positions that moved without a delivery, so that a rare query pins nothing."""
        if self._queue or self._untold or not self._outlet.writable:
            return
        bounds = self._log.bounds
        origin = self._log.origin
        rows = []
        for feed in self._feeds.values():
            if feed.pace is Pace.LIVE:
                feed.settle(bounds.last + 1)
                feed.scanned = max(feed.scanned, (bounds.epoch, bounds.last))
            if feed.scanned > feed.told:
                feed.told = feed.scanned
                rows.append((feed.number, ((origin, *feed.scanned),)))
        if rows:
            self._outlet.send_message(Progress(rows))
