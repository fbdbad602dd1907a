"""A subscription for its user."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias

from broker.client.effects import (
    EventBatch,
    Item,
    PositionMoved,
    SubscriptionAccepted,
    SubscriptionEnded,
)
from broker.client.loop import Loop, Promise
from broker.client.received import FlowStarted, Gap, ReceivedEvent, TypeChanged
from broker.errors import BrokerError, Closed
from broker.event.place import Position
from broker.event.site_notice import SiteCoverage, SiteNotice, SiteStatus

_Report: TypeAlias = PositionMoved | Gap | TypeChanged | SiteNotice
_log = logging.getLogger(__name__)


class Owner(Protocol):
    def mark_processed(self, number: int, item: Item) -> None: ...
    def discard(self, item: Item) -> None: ...
    def end_subscription(self, number: int, forget: bool) -> None: ...
    def position_of(self, number: int) -> Position: ...
    def duplicates_of(self, number: int) -> int: ...


class IMesh(Protocol):
    """The mesh of a subscription."""

    @property
    def parents(self) -> Sequence[str]:
        """Names of the routers that send events."""

    @property
    def events(self) -> int:
        """Number of events that it brought before the session."""

    @property
    def is_alone(self) -> bool:
        """True while the session brings no events of the mesh's streams."""

    def end(self) -> None:
        """Leave the mesh."""


class Subscription:
    """Asynchronous iterator of events, in order, each once.

    An event counts as processed when the next one is requested; the position of a durable
    subscription follows. The session's window bounds unread events. A slow reader does not delay
    receipts and answers.

    A gap is reported in order with the events: to `on_gap`, or as a logged warning, and in `gaps`.
    So is a new version of an event type that affects the query, by `on_change` and `changes`, and a
    notice about a site of an ordered stream, by `on_notice` and `notices`.
    """

    def __init__(
        self,
        owner: Owner,
        loop: Loop,
        number: int,
        query: str,
        streams: str,
        on_gap: Callable[[Gap], None] | None,
        on_change: Callable[[TypeChanged], None] | None = None,
        on_notice: Callable[[SiteNotice], None] | None = None,
    ) -> None:
        self._owner = owner
        self._loop = loop
        self.number = self._number = number
        self.query = query
        self.streams = streams
        self._on_gap = on_gap
        self._on_change = on_change
        self._on_notice = on_notice
        self._items: deque[EventBatch | _Report] = deque()
        self._waiter: Promise | None = None
        self._flowing_promise: Promise | None = None
        self._is_flowing = False
        self._batch: EventBatch | None = None
        self._index = 0
        self._error: BrokerError | None = None
        self._last_position: Position | None = None
        self.mesh: IMesh | None = None
        """Set by `Client.subscribe_in_mesh`."""
        self.over = False
        self.cut = Position()
        """No matching event is missing after this; known once the subscription is flowing."""
        self.warnings: tuple[str, ...] = ()
        """The node's warnings about the query, such as that it can never match."""
        self.gaps: deque[Gap] = deque(maxlen=1000)
        self.changes: deque[TypeChanged] = deque(maxlen=1000)
        self.notices: deque[SiteNotice] = deque(maxlen=1000)

    @property
    def flowing(self) -> Awaitable[Subscription]:
        """Fire with the subscription when it is flowing; fail if it ends before."""
        if self._flowing_promise is None:
            # An unread failed promise would be reported as an error.
            self._flowing_promise = self._loop.make_promise()
            self._settle_flowing()
        return self._flowing_promise.awaitable

    @property
    def position(self) -> Position:
        """The processed position; pass it to `since` to continue from here."""
        if self._last_position is not None:
            return self._last_position
        return self._owner.position_of(self._number)

    @property
    def duplicates_dropped(self) -> int:
        """Number of repeated events, from another place or node."""
        return self._owner.duplicates_of(self._number)

    def unsubscribe(self, *, forget: bool = False) -> None:
        """Drop unread events. With `forget`, the node deletes a durable subscription."""
        if self.over:
            return
        self._leave_mesh()
        self._last_position = self.position
        unread, self._items = self._items, deque()
        if self._batch is not None:
            unread.appendleft(self._batch)
            self._batch = None
        for item in unread:
            # Otherwise their credit would be lost to the other subscriptions.
            self._owner.discard(item)
        self._owner.end_subscription(self._number, forget)

    def __aiter__(self) -> AsyncIterator[ReceivedEvent]:
        return self

    async def __anext__(self) -> ReceivedEvent:
        while True:
            event = self._next_event()
            if event is not None:
                return event
            if self.over:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            self._waiter = self._loop.make_promise()
            await self._waiter.awaitable

    def take_ready(self) -> list[ReceivedEvent]:
        """Return the next batch of events, or none. The next call marks it as processed.

        Gaps are reported in between, in order.
        """
        events: list[ReceivedEvent] = []
        if self._batch is not None and self._index < len(self._batch.events):
            events.extend(self._batch.events[self._index :])
            self._index = len(self._batch.events)
            return events
        while not events:
            # A batch of duplicates alone is empty.
            self._finish_batch()
            if not self._items:
                break
            item = self._items.popleft()
            if isinstance(item, EventBatch):
                self._batch, self._index = item, len(item.events)
                events.extend(item.events)
            else:
                self._pass_item(item)
        return events

    def processed(self, event: ReceivedEvent) -> None:
        """Mark this event and all before it as processed; later ones of its message may not be.

        Only needed to stop in the middle of iterating.
        """
        if self.over or self._batch is None:
            return
        events = self._batch.events
        last_index = next((i for i, each in enumerate(events) if each is event), -1)
        # An origin that may have missing events moves only with the whole batch.
        complete = self._batch.position.marks
        places = [each.place for each in events[: last_index + 1] if each.place.origin in complete]
        if places:
            self._owner.mark_processed(self._number, PositionMoved(Position().advanced(places)))

    # ------------------------------------------------------------------ from the client

    def receive_item(self, item: Item) -> None:
        if isinstance(item, SubscriptionAccepted):
            self.warnings = item.warnings
        elif isinstance(item, FlowStarted):
            self.cut = item.cut
            self._is_flowing = True
            self._settle_flowing()
        elif isinstance(item, SubscriptionEnded):
            self._last_position = item.position
            self.mark_ended(item.error)
        else:
            self._items.append(item)
            self._wake_waiter()

    def mark_ended(self, error: BrokerError | None) -> None:
        self.over = True
        self._error = error
        self._leave_mesh()
        self._settle_flowing()
        self._wake_waiter()

    # ------------------------------------------------------------------ inside

    def _leave_mesh(self) -> None:
        if self.mesh is not None:
            self.mesh.end()

    def _settle_flowing(self) -> None:
        if self._flowing_promise is None:
            return
        if self._is_flowing:
            self._flowing_promise.fulfil(self)
        elif self.over:
            self._flowing_promise.fail(self._error or Closed("the client was closed"))

    def _next_event(self) -> ReceivedEvent | None:
        while True:
            batch = self._batch
            if batch is not None and self._index < len(batch.events):
                self._index += 1
                return batch.events[self._index - 1]
            self._finish_batch()
            if not self._items:
                return None
            item = self._items.popleft()
            if isinstance(item, EventBatch):
                self._batch, self._index = item, 0
            else:
                self._pass_item(item)

    def _finish_batch(self) -> None:
        batch, self._batch = self._batch, None
        if batch is not None:
            self._owner.mark_processed(self._number, batch)

    def _pass_item(self, item: _Report) -> None:
        if isinstance(item, PositionMoved):
            self._owner.mark_processed(self._number, item)
            return
        if isinstance(item, TypeChanged):
            self._report_change(item)
            return
        if isinstance(item, SiteNotice):
            self._report_notice(item)
            return
        self.gaps.append(item)
        if self._on_gap is not None:
            self._on_gap(item)
        else:
            # The user requested that events are coalesced.
            _log.log(
                logging.DEBUG if item.reason == "coalesced" else logging.WARNING,
                "subscription %r: %d events from %s to %s are lost (%s)",
                self.query,
                item.count,
                item.first,
                item.last,
                item.reason,
            )

    def _report_change(self, change: TypeChanged) -> None:
        self.changes.append(change)
        if self._on_change is not None:
            self._on_change(change)
        else:
            _log.warning(
                "subscription %r: %s %s is newer than %s: %s %s",
                self.query,
                change.type,
                change.new,
                change.old,
                change.effect,
                change.reason or ", ".join(change.paths),
            )

    def _report_notice(self, notice: SiteNotice) -> None:
        if not isinstance(notice, SiteCoverage):
            # One comes each second.
            self.notices.append(notice)
        if self._on_notice is not None:
            self._on_notice(notice)
        else:
            _log.log(
                logging.DEBUG if isinstance(notice, SiteStatus | SiteCoverage) else logging.WARNING,
                "subscription %r: %s",
                self.query,
                notice,
            )

    def _wake_waiter(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter.fulfil(None)
