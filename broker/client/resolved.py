"""A replay in resolved order: all of it is read before the first event is given out (M38)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from broker.client.effects import Portion
from broker.client.loop import Loop
from broker.client.merged import linked, subscription_as
from broker.client.received import Gap, ReceivedEvent, TypeChanged
from broker.client.subscription import Owner, Subscription
from broker.errors import BadPosition, BrokerError, ReplayTooLarge
from broker.event.merging.finished import Row, resolve
from broker.event.merging.settings import Merging
from broker.event.place import Position

#: Orders in which a replay can be asked for.
PUBLISHER: Final = "publisher"
"""Each origin's order and each publisher's, else by arrival."""
BUNDLE: Final = "bundle"
"""By the bundles and constraints of EventLinkage."""
#: What a replay in resolved order holds at most.
MOST_EVENTS: Final = 100_000
MOST_BYTES: Final = 256 << 20


class ResolvedReplay(Subscription):
    """A finite `Subscription` whose events change places as their linkage asks for.

    Events in this order are not in the order of their origins. So `position` stays empty until the
    last event is processed, and a replay that breaks off has nothing to go on from. A replay that
    fails gives out nothing.
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
    ) -> None:
        super().__init__(owner, loop, number, query, streams, on_gap, on_change)
        self._rule = None if merging is None else merging.rule
        self._most_events = MOST_EVENTS if merging is None else merging.max_events
        self._most_bytes = MOST_BYTES if merging is None else merging.max_bytes
        self._held: list[ReceivedEvent] = []
        self._held_bytes = 0
        self._resolved: deque[ReceivedEvent] | None = None

    @property
    def position(self) -> Position:
        """Where the replay ends, once all of it is processed; before that it is empty."""
        is_done = self.over and self._resolved is not None and not self._resolved
        return super().position if is_done else Position()

    def take_ready(self) -> list[ReceivedEvent]:
        """All events in resolved order, when the last has come; empty before that."""
        events: list[ReceivedEvent] = []
        while (event := self._next_event()) is not None:
            events.append(event)
        return events

    def processed(self, event: ReceivedEvent) -> None:
        """Nothing follows of it: there is no position in the middle."""

    def unsubscribe(self, *, forget: bool = False) -> None:
        """End it early: nothing is given out. See `Subscription.unsubscribe`."""
        super().unsubscribe(forget=forget)
        self._held.clear()
        self._resolved = deque()

    # ------------------------------------------------------------------ inside

    def _next_event(self) -> ReceivedEvent | None:
        self._pull()
        if not self.over or self._error is not None:
            return None
        if self._resolved is None:
            self._resolved = deque(self._held[index] for index in self._order())
            self._held.clear()
        return self._resolved.popleft() if self._resolved else None

    def _pull(self) -> None:
        while self._items:
            item = self._items.popleft()
            if not isinstance(item, Portion):
                self._pass(item)
                continue
            # The process that holds it is the one that asked: where that ends, so does the replay.
            self._owner.taken(self._number, item)
            self._held += item.events
            self._held_bytes += sum(len(event.document) for event in item.events)
            if len(self._held) > self._most_events or self._held_bytes > self._most_bytes:
                self._give_up()

    def _give_up(self) -> None:
        self.unsubscribe()
        self.closed(
            ReplayTooLarge(
                f"the replay has over {self._most_events} events or {self._most_bytes} bytes, more "
                "than are held for resolved order: ask for a shorter time or fewer streams"
            )
        )

    def closed(self, error: BrokerError | None) -> None:
        """See `Subscription.closed`; the first reason counts."""
        super().closed(self._error or error)

    def _order(self) -> list[int]:
        rows = [Row(each.stream, each.event_id, linked(each).linkage) for each in self._held]
        return resolve(rows, self._rule)


def replay_as(order: str, merge: Merging | None) -> Callable[..., Subscription]:
    """Return what makes a replay in this order; raises `BadPosition` for an unknown order."""
    if order == BUNDLE:
        return partial(ResolvedReplay, merge)
    if order != PUBLISHER:
        raise BadPosition(f"a replay has no order {order[:40]!r}: {PUBLISHER} or {BUNDLE}")
    return subscription_as(merge)
