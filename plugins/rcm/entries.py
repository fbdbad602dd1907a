"""Order entries of the messages of one group, and the record of the last deliveries."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence

import attrs

from broker.event.order_entry import (
    OrderEntry,
    decode_order_entry,
    encode_order_entry,
    encode_run,
)
from broker.event.place import Mark
from broker.streams.contract import CarriedEvent
from broker.transport.order import Instant, IOrderCore, MessageId, Place, Stamp
from plugins.rcm.delivered_run import DeliveredRun, read_runs
from plugins.rcm.held_events import HeldEvents

#: Messages and runs of a flow whose delivery is remembered, in case that its commit fails.
MOST_RECORDED = 5_000
#: Events in these runs.
MOST_RECORDED_EVENTS = 20_000


@attrs.frozen
class _Delivered:
    """Events that were delivered together, with numbers and stamps that follow each other."""

    marks: Sequence[Mark]
    id: MessageId
    stamp: Stamp

    def part(self, begin: int, end: int) -> _Delivered:
        return _Delivered(self.marks[begin:end], self.id.after(begin), self.stamp.after(begin))


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

    def take(self, after: Mark, upto: Mark | None) -> list[tuple[MessageId, Stamp]]:
        """Remove and return the messages of events behind a place, up to another one; the last one
        first."""
        taken: list[tuple[MessageId, Stamp]] = []
        later: list[_Delivered] = []
        while self._runs and self._runs[-1].marks[-1] > after:
            run = self._runs.pop()
            self._count -= len(run.marks)
            begin, end = bisect_right(run.marks, after), len(run.marks)
            if upto is not None:
                end = max(begin, bisect_right(run.marks, upto))
            if end < len(run.marks):
                later.append(run.part(end, len(run.marks)))
            indices = reversed(range(begin, end))
            taken += [(run.id.after(index), run.stamp.after(index)) for index in indices]
            if begin:
                self.add(run.part(0, begin))
        for run in reversed(later):
            self.add(run)
        return taken


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
        self.disconnected: set[str] = set()
        """Sites from which no live message comes: all their messages are recovered."""

    def bound_of(self, site: str) -> int:
        """Return the error of a site's stamps."""
        return self._bound_of(site)

    def encode(self, id: MessageId, stamp: Stamp | None, bound: int, count: int = 1) -> list[bytes]:
        """Return the annotations of a run that is in time."""
        stack, variant = self._name.stack, self._name.variant
        time, site = (None, id.site) if stamp is None else stamp
        tie = "" if site == id.site else site
        return encode_run(stack, id, time, variant, bound, tie, count)

    def read(self, event: CarriedEvent) -> OrderEntry | None:
        """Return the entry of an event of this group; None if another stack carried it."""
        entry = decode_order_entry(event.annotation)
        return entry if entry is not None and entry.stack == self._name.stack else None

    def read_runs(self, events: Iterable[CarriedEvent]) -> list[DeliveredRun]:
        """Return the runs of delivered events of this group by their entries."""
        return read_runs(self._name.stack, events)

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
        is_late = late is not None
        held.delivered = DeliveredRun(id, stamp, is_late, held.is_recovered, held.events)
        self._record(held.flow, [event.mark for event in held.events], id, stamp)

    def place(
        self, flow: str, event: CarriedEvent, at: Instant, *, is_recovered: bool = True
    ) -> CarriedEvent:
        """Return an event that is delivered at once, with its place.

        It is recovered, or was taken back and is marked as before.
        """
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
        is_recovered = is_recovered or entry.is_recovered or entry.site in self.disconnected
        placed = _with_place(stamped, late, is_recovered=is_recovered)
        return event.with_annotation(encode_order_entry(placed))

    def restore(self, entry: OrderEntry) -> None:
        """Record a delivery of an earlier process."""
        stamp = stamp_of(entry)
        if stamp is not None and entry.stack == self._name.stack:
            self._core.place(MessageId(*entry.id), stamp)

    def take_back(
        self, flow: str, after: Mark, upto: Mark | None = None
    ) -> list[tuple[MessageId, Stamp]]:
        """Forget deliveries of a flow that were not logged, and return them: those behind a place,
        up to another one."""
        delivered = self._delivered.get(flow)
        taken = [] if delivered is None else delivered.take(after, upto)
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
