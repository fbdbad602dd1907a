"""A replay in resolved order: all events are read before the first is returned (M38)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from broker.client.effects import EventBatch
from broker.client.loop import Loop
from broker.client.merged import link_event, subscription_factory
from broker.client.received import Gap, ReceivedEvent, TypeChanged
from broker.client.subscription import Owner, Subscription
from broker.errors import BadPosition, BrokerError, ReplayTooLarge
from broker.event.merging.resolution import Row, resolve
from broker.event.merging.settings import Merging
from broker.event.place import Position
from broker.event.site_notice import SiteNotice

PUBLISHER: Final = "publisher"
"""The order of each origin and of each publisher, otherwise by arrival."""
BUNDLE: Final = "bundle"
"""The order of the bundles and constraints of EventLinkage."""
MAX_EVENTS: Final = 100_000
MAX_BYTES: Final = 256 << 20


class ResolvedReplay(Subscription):
    """A finite `Subscription` whose events are sorted by their linkage.

    `position` is empty until the last event is processed. A failed replay returns no event.
    """

    def __init__(
        self,
        merging: Merging | None,
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
        self._rule = None if merging is None else merging.rule
        self._max_events = MAX_EVENTS if merging is None else merging.max_events
        self._max_bytes = MAX_BYTES if merging is None else merging.max_bytes
        self._held: list[ReceivedEvent] = []
        self._held_bytes = 0
        self._resolved: deque[ReceivedEvent] | None = None

    @property
    def position(self) -> Position:
        is_done = self.over and self._resolved is not None and not self._resolved
        return super().position if is_done else Position()

    def take_ready(self) -> list[ReceivedEvent]:
        """Return all events once the last has arrived; none before."""
        events: list[ReceivedEvent] = []
        while (event := self._next_event()) is not None:
            events.append(event)
        return events

    def processed(self, event: ReceivedEvent) -> None:
        """Ignored: there is no position before the end."""

    def unsubscribe(self, *, forget: bool = False) -> None:
        super().unsubscribe(forget=forget)
        self._held.clear()
        self._resolved = deque()

    # ------------------------------------------------------------------ inside

    def _next_event(self) -> ReceivedEvent | None:
        self._hold_arrived()
        if not self.over or self._error is not None:
            return None
        if self._resolved is None:
            self._resolved = deque(self._held[index] for index in self._resolve_order())
            self._held.clear()
        return self._resolved.popleft() if self._resolved else None

    def _hold_arrived(self) -> None:
        while self._items:
            item = self._items.popleft()
            if not isinstance(item, EventBatch):
                self._pass_item(item)
                continue
            # If this process ends, its replay ends too.
            self._owner.mark_processed(self._number, item)
            self._held += item.events
            self._held_bytes += sum(len(event.document) for event in item.events)
            if len(self._held) > self._max_events or self._held_bytes > self._max_bytes:
                self._fail_too_large()

    def _fail_too_large(self) -> None:
        self.unsubscribe()
        self.mark_ended(
            ReplayTooLarge(
                f"the replay has over {self._max_events} events or {self._max_bytes} bytes, more "
                "than resolved order allows: request a shorter time or fewer streams"
            )
        )

    def mark_ended(self, error: BrokerError | None) -> None:
        super().mark_ended(self._error or error)

    def _resolve_order(self) -> list[int]:
        rows = [Row(each.stream, each.event_id, link_event(each).linkage) for each in self._held]
        return resolve(rows, self._rule)


def replay_factory(order: str, merge: Merging | None) -> Callable[..., Subscription]:
    """Raises `BadPosition` for an unknown order."""
    if order == BUNDLE:
        return partial(ResolvedReplay, merge)
    if order != PUBLISHER:
        raise BadPosition(f"the order of a replay is {PUBLISHER} or {BUNDLE}, not {order[:40]!r}")
    return subscription_factory(merge)
