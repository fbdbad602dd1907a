"""Order entries of the messages of one group, and the record of the last deliveries."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

import attrs

from broker.event.order_entry import (
    OrderEntry,
    decode_order_entry,
    encode_in_time,
    encode_order_entry,
)
from broker.event.place import Mark
from broker.streams.contract import CarriedEvent
from broker.transport.order import Instant, IOrderCore, MessageId, Place, Stamp
from plugins.rcm.held_events import HeldEvents

#: Messages and runs of a flow whose delivery is remembered, in case that its commit fails.
MOST_RECORDED = 5_000
#: Events in these runs.
MOST_RECORDED_EVENTS = 20_000


@attrs.frozen
class _Delivered:
    """Events that were delivered together, with numbers and stamps that follow each other."""

    marks: list[Mark]
    id: MessageId
    stamp: Stamp


class _Deliveries:
    """The last deliveries of a flow, in its order."""

    def __init__(self) -> None:
        self._runs: deque[_Delivered] = deque()
        self._count = 0

    def add(self, run: _Delivered) -> None:
        self._runs.append(run)
        self._count += len(run.marks)
        while len(self._runs) > MOST_RECORDED or self._count > MOST_RECORDED_EVENTS:
            self._count -= len(self._runs.popleft().marks)

    def pop_after(self, mark: Mark) -> Iterator[tuple[MessageId, Stamp]]:
        """Remove and yield the messages of events behind a place, the last one first."""
        while self._runs and self._runs[-1].marks[-1] > mark:
            run = self._runs[-1]
            index = len(run.marks) - 1
            run.marks.pop()
            self._count -= 1
            if not run.marks:
                self._runs.pop()
            yield run.id.after(index), run.stamp.after(index)


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
        self._delivered: dict[str, _Deliveries] = {}
        """By flow."""

    def bound_of(self, site: str) -> int:
        """Return the error of a site's stamps."""
        return self._bound_of(site)

    def encode(self, id: MessageId, stamp: Stamp | None, bound: int, count: int = 1) -> list[bytes]:
        """Return the annotations of a run that is in time."""
        stack, variant = self._name.stack, self._name.variant
        if stamp is None:
            return [
                encode_in_time(stack, id.after(index), None, variant, bound, "")
                for index in range(count)
            ]
        time, site = stamp
        tie = "" if site == id.site else site
        return [
            encode_in_time(stack, id.after(index), time + index, variant, bound, tie)
            for index in range(count)
        ]

    def read(self, event: CarriedEvent) -> OrderEntry | None:
        """Return the entry of an event of this group; None if another stack carried it."""
        entry = decode_order_entry(event.annotation)
        return entry if entry is not None and entry.stack == self._name.stack else None

    def deliver(
        self, held: HeldEvents, id: MessageId, stamp: Stamp, late: Place | None, *, is_new: bool
    ) -> None:
        """Give events the entries of their delivery. Those of messages in time mostly stay.

        `is_new`: the stamp is not that of the sender. A run is in time.
        """
        is_placed = late is not None or held.is_recovered
        if is_placed or is_new or not held.has_entry:
            entries = self.encode(id, stamp, self._bound_of(id.site), len(held.events))
            if is_placed:
                entries = [_placed(each, late, is_recovered=held.is_recovered) for each in entries]
            held.events = list(map(CarriedEvent.with_annotation, held.events, entries))
        self._record(held.flow, [event.mark for event in held.events], id, stamp)

    def place(self, flow: str, event: CarriedEvent, at: Instant) -> CarriedEvent:
        """Return an event that is delivered at once, from a log, with its place."""
        entry = self.read(event)
        if entry is None:
            return event
        id, late, stamped = MessageId(*entry.id), None, entry
        stamp = self._core.find_stamp(id, stamp_of(entry), at)
        if stamp is not None:
            late = self._core.place(id, stamp)
            self._record(flow, [event.mark], id, stamp)
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
        taken = [] if delivered is None else list(delivered.pop_after(after))
        for id, stamp in taken:
            self._core.take_back(id, stamp)
        return taken

    def _record(self, flow: str, marks: list[Mark], id: MessageId, stamp: Stamp) -> None:
        self._delivered.setdefault(flow, _Deliveries()).add(_Delivered(marks, id, stamp))


def stamp_of(entry: OrderEntry) -> Stamp | None:
    return None if entry.stamp is None else Stamp(entry.stamp, entry.tie or entry.site)


def _placed(annotation: bytes, late: Place | None, *, is_recovered: bool) -> bytes:
    """Return the annotation with the place of a message that was delivered."""
    entry = decode_order_entry(annotation)
    assert entry is not None
    return encode_order_entry(_with_place(entry, late, is_recovered=is_recovered))


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
