"""Order entries of the messages of one group, and the record of the last deliveries."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import attrs

from broker.event.order_entry import (
    OrderEntry,
    decode_order_entry,
    encode_in_time,
    encode_order_entry,
)
from broker.event.place import Mark
from broker.streams.contract import CarriedEvent
from broker.transport.order import Instant, IOrderCore, Message, MessageId, Place, Stamp
from plugins.rcm.held_events import HeldEvent

#: Deliveries of a flow that are remembered, in case that their commit fails.
MOST_RECORDED = 5_000


@attrs.frozen
class GroupName:
    """The names of a group that stand in its order entries."""

    stack: str
    variant: str


class Entries:
    """Makes the entries of a site, and records what it delivered."""

    def __init__(self, name: GroupName, core: IOrderCore, bound_of: Callable[[str], int]) -> None:
        """`bound_of` returns the error of a site's stamps in microseconds; 0: they are no times."""
        self._name = name
        self._core = core
        self._bound_of = bound_of
        self._delivered: dict[str, deque[tuple[Mark, MessageId, Stamp]]] = {}
        """The last deliveries of each flow, in its order."""

    def bound_of(self, site: str) -> int:
        """Return the error of a site's stamps."""
        return self._bound_of(site)

    def encode(self, id: MessageId, stamp: Stamp | None, bound: int) -> bytes:
        """Return the annotation of a message that is in time."""
        name = self._name
        if stamp is None:
            return encode_in_time(name.stack, id, None, name.variant, bound, "")
        time, site = stamp
        tie = "" if site == id.site else site
        return encode_in_time(name.stack, id, time, name.variant, bound, tie)

    def read(self, event: CarriedEvent) -> OrderEntry | None:
        """Return the entry of an event of this group; None if another stack carried it."""
        entry = decode_order_entry(event.annotation)
        return entry if entry is not None and entry.stack == self._name.stack else None

    def deliver(self, held: HeldEvent, message: Message, stamp: Stamp, late: Place | None) -> None:
        """Give an event the entry of its delivery. That of a message in time mostly stays."""
        if late is not None or held.is_recovered:
            bound = self._bound_of(message.id.site)
            entry = decode_order_entry(self.encode(message.id, stamp, bound))
            assert entry is not None
            placed = _with_place(entry, late, is_recovered=held.is_recovered)
            held.event = held.event.with_annotation(encode_order_entry(placed))
        elif not held.has_entry or message.stamp != stamp:
            bound = self._bound_of(message.id.site)
            held.event = held.event.with_annotation(self.encode(message.id, stamp, bound))
        self._record(held.flow, held.event.mark, message.id, stamp)

    def place(self, flow: str, event: CarriedEvent, at: Instant) -> CarriedEvent:
        """Return an event that is delivered at once, from a log, with its place."""
        entry = self.read(event)
        if entry is None:
            return event
        id, late, stamped = MessageId(*entry.id), None, entry
        stamp = self._core.find_stamp(id, stamp_of(entry), at)
        if stamp is not None:
            late = self._core.place(id, stamp)
            self._record(flow, event.mark, id, stamp)
            tie = "" if stamp.site == id.site else stamp.site
            stamped = attrs.evolve(entry, stamp=stamp.time, tie=tie)
        return event.with_annotation(
            encode_order_entry(_with_place(stamped, late, is_recovered=True))
        )

    def restore(self, entry: OrderEntry) -> None:
        """Record a delivery of an earlier process."""
        stamp = stamp_of(entry)
        if stamp is not None and entry.stack == self._name.stack:
            self._core.place(MessageId(*entry.id), stamp)

    def take_back(self, flow: str, after: Mark) -> list[tuple[MessageId, Stamp]]:
        """Forget deliveries of a flow that were not logged, and return them."""
        delivered = self._delivered.get(flow)
        taken: list[tuple[MessageId, Stamp]] = []
        while delivered and delivered[-1][0] > after:
            _, id, stamp = delivered.pop()
            self._core.take_back(id, stamp)
            taken.append((id, stamp))
        return taken

    def _record(self, flow: str, mark: Mark, id: MessageId, stamp: Stamp) -> None:
        recorded = self._delivered.setdefault(flow, deque(maxlen=MOST_RECORDED))
        recorded.append((mark, id, stamp))


def stamp_of(entry: OrderEntry) -> Stamp | None:
    return None if entry.stamp is None else Stamp(entry.stamp, entry.tie or entry.site)


def _with_place(entry: OrderEntry, late: Place | None, *, is_recovered: bool) -> OrderEntry:
    """Return the entry with the place of a message that was delivered."""
    before, after = (None, None) if late is None else (late.before, late.after)
    return attrs.evolve(
        entry,
        is_late=late is not None,
        before=before,
        after=after,
        is_recovered=is_recovered,
    )
