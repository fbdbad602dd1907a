"""A subscription whose events come in the order of their linkage (Mspaces M38)."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial

import attrs

from broker.client.effects import EventBatch, Item, PositionMoved
from broker.client.loop import Loop
from broker.client.received import Gap, ReceivedEvent, TypeChanged
from broker.client.subscription import Owner, Subscription
from broker.errors import BadName, BrokerError
from broker.event.envelope import EventLinkage
from broker.event.merging.held_event import (
    LinkedEvent,
    MergeOutput,
    MissingNumbers,
    ReleasedEvent,
    UnknownWord,
)
from broker.event.merging.linkage import read_linkage
from broker.event.merging.merger import Counts, Merger
from broker.event.merging.position_tracker import PositionTracker
from broker.event.merging.settings import Merging
from broker.event.place import Position
from broker.event.site_notice import SiteNotice
from broker.event.stream import StreamPattern
from broker.transport.deadline_timer import DeadlineTimer

__all__ = ("MergedEvent", "MergedSubscription", "Merging", "subscription_factory")

_log = logging.getLogger(__name__)


@attrs.frozen(slots=False, eq=False)
class MergedEvent(ReceivedEvent):
    late: bool = False
    """True if an event that follows it in the resolved order was returned before."""


class MergedSubscription(Subscription):
    """A `Subscription` of `MergedEvent`s in resolved order (`docs/merging.md`).

    The bounds of `Merging`, not the session's window, apply to held events. The position moves past
    an event when it and all earlier events of its origin are processed. Held events can be read
    after the end of the subscription.
    """

    def __init__(
        self,
        merging: Merging,
        owner: Owner,
        loop: Loop,
        number: int,
        query: str,
        streams: str,
        on_gap: Callable[[Gap], None] | None,
        on_change: Callable[[TypeChanged], None] | None = None,
        on_notice: Callable[[SiteNotice], None] | None = None,
    ) -> None:
        super().__init__(owner, loop, number, query, streams, on_gap, on_change, on_notice)
        self._merging = merging
        self._merger = self._new_merger()
        self._ledger = PositionTracker()
        self._reported_position = Position()
        self._outputs: deque[MergeOutput[ReceivedEvent]] = deque()
        self._unprocessed: deque[ReceivedEvent] = deque()
        """Returned, maybe not processed."""
        self._timer = DeadlineTimer(loop.clock, self._wake_waiter)
        self.missing: deque[MissingNumbers] = deque(maxlen=1000)
        self.on_missing: Callable[[MissingNumbers], None] | None = None
        """Called in order with the events; without it missing ranges are logged."""

    @property
    def counts(self) -> Counts:
        return self._merger.counts

    @property
    def held(self) -> int:
        """Number of events that arrived and were not returned."""
        return self._merger.held + sum(isinstance(each, ReleasedEvent) for each in self._outputs)

    @property
    def position(self) -> Position:
        return super().position.merged(self._ledger.position)

    def unsubscribe(self, *, forget: bool = False) -> None:
        """Drop held events, too."""
        super().unsubscribe(forget=forget)
        self._merger = self._new_merger()
        self._outputs.clear()
        self._unprocessed.clear()
        self._timer.arm(None)

    def take_ready(self) -> list[ReceivedEvent]:
        events: list[ReceivedEvent] = []
        while (event := self._next_event(processed=not events)) is not None:
            events.append(event)
            if not self._outputs:
                break
        return events

    def receive_item(self, item: Item) -> None:
        """Newer stream times replace unread ones."""
        if isinstance(item, PositionMoved) and item.times and self._items:
            last = self._items[-1]
            if isinstance(last, PositionMoved):
                item = PositionMoved(last.position.merged(item.position), item.times)
                self._items.pop()
        super().receive_item(item)

    def processed(self, event: ReceivedEvent) -> None:
        if event in self._unprocessed:
            while self._unprocessed:
                each = self._unprocessed.popleft()
                self._ledger.record_processed(each.place)
                if each is event:
                    break
            self._report_position()

    def mark_ended(self, error: BrokerError | None) -> None:
        super().mark_ended(error)
        self._timer.arm(None)

    # ------------------------------------------------------------------ inside

    def _new_merger(self) -> Merger[ReceivedEvent]:
        try:
            expects = StreamPattern.parse(self.streams).matches
        except BadName:
            # The node reports the error.
            return Merger(self._merging)
        return Merger(self._merging, expects)

    def _next_event(self, *, processed: bool = True) -> ReceivedEvent | None:
        if processed:
            while self._unprocessed:
                self._ledger.record_processed(self._unprocessed.popleft().place)
        event = self._next_output()
        if event is None:
            self._merge_arrived()
            event = self._next_output()
        if event is None and self.over:
            self._outputs += self._merger.finish()
            event = self._next_output()
        if processed:
            self._report_position()
        self._timer.arm(None if self.over else self._merger.next_timeout())
        return event

    def _next_output(self) -> ReceivedEvent | None:
        while self._outputs:
            output = self._outputs.popleft()
            if isinstance(output, ReleasedEvent):
                event = output.item
                given = MergedEvent(
                    *(event.place, event.header, event.liveness, event.document, output.late),
                    order=event.order,
                )
                self._unprocessed.append(given)
                return given
            self._report_output(output)
        return None

    def _merge_arrived(self) -> None:
        """Merge all arrived items at once, which shows the events that wait for nothing."""
        arrived: list[LinkedEvent[ReceivedEvent]] = []
        times: dict[str, int] = {}
        while self._items:
            item = self._items.popleft()
            if isinstance(item, EventBatch):
                arrived += map(link_event, item.events)
                for event in item.events:
                    self._ledger.record_arrival(event.place, contiguous=bool(item.position.marks))
                self._ledger.record_progress(item.position)
                # This frees credit, and moves no position.
                self._owner.discard(item)
            elif isinstance(item, PositionMoved):
                self._ledger.record_progress(item.position)
                times = dict(item.times) or times
            else:
                self._pass_item(item)
        now = self._loop.clock.seconds()
        self._outputs += self._merger.receive(arrived, now)
        if times:
            # Stream times apply after the events that arrived before them.
            self._outputs += self._merger.set_stream_times(times, now)
        self._outputs += self._merger.handle_timeout(now)

    def _report_position(self) -> None:
        position = self._ledger.position
        if position != self._reported_position:
            self._reported_position = position
            if not self.over:
                self._owner.mark_processed(self._number, PositionMoved(position))

    def _report_output(self, output: MissingNumbers | UnknownWord) -> None:
        if isinstance(output, UnknownWord):
            _log.warning(
                "subscription %r: events with the word %.80r in their linkage are not merged",
                self.query,
                output.word,
            )
            return
        self.missing.append(output)
        if self.on_missing is not None:
            self.on_missing(output)
        else:
            _log.warning(
                "subscription %r: bundle %r of %s lacks %d to %d",
                self.query,
                output.bundle_id,
                output.stream,
                output.first,
                output.last,
            )


def link_event(event: ReceivedEvent) -> LinkedEvent[ReceivedEvent]:
    try:
        linkage = read_linkage(event.document)
    except BrokerError:
        # Reading the event reports the error; it has no place in the order.
        linkage = EventLinkage()
    size = len(event.document)
    return LinkedEvent(event, event.stream, event.event_id, linkage, size, event.place.origin)


def subscription_factory(merge: Merging | None) -> Callable[..., Subscription]:
    return Subscription if merge is None else partial(MergedSubscription, merge)
