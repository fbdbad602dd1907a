"""What enters units by this node: how far it was sent on inside, and what passes by beside it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence

import attrs

from broker.cluster.address import Address, UnitPath
from broker.cluster.traffic.effects import Enter
from broker.cluster.traffic.received_range import Arrived
from broker.cluster.traffic.sender import Departures
from broker.event.place import Mark

#: Origins, by the units that they enter here, of which it is remembered how far they were sent on;
#: of another one that begins anew.
MOST_ENTERING = 4_096


@attrs.define
class _Entry:
    """What enters a unit here of one origin."""

    departures: Departures
    upto: Mark
    """Of all ranges that came, whether they are matched yet or not."""


class Entering:
    """Of all origins."""

    def __init__(self, inside: Callable[[UnitPath], Sequence[Address]]) -> None:
        """`inside` says among whom is divided what enters a unit."""
        self._inside = inside
        self._entries: OrderedDict[tuple[str, UnitPath], _Entry] = OrderedDict()
        self._passing: dict[str, set[Enter]] = {}
        """By origin what is matched now, and has not let pass what goes on beside it."""

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Departures]:
        return iter([each.departures for each in self._entries.values()])

    def map_moved(self, anew: Collection[Address]) -> None:
        """Who is inside may be others now; those of `anew` are other processes than before."""
        for (_, unit), each in self._entries.items():
            each.departures.serve(self._inside(unit), each.upto, anew)

    def departures(self, arrived: Arrived) -> Departures:
        """By which a range goes on inside."""
        frame, told = arrived.frame, arrived.range
        unit = told.destination.unit
        entry = self._entries.pop((frame.origin, unit), None)
        if entry is None:
            departures = Departures(frame.origin, frame.home, told.after)
            departures.serve(self._inside(unit), told.since or told.after)
            entry = _Entry(departures, told.upto)
            while len(self._entries) >= MOST_ENTERING:
                self._entries.popitem(last=False)
        entry.departures.spoke(frame.home)
        entry.departures.history = frame.history
        entry.upto = max(entry.upto, told.upto)
        self._entries[frame.origin, unit] = entry
        return entry.departures

    # ------------------------------------------------------------------ what passes by

    def holds(self, origin: str) -> bool:
        """Whether what passes by has to stay behind what enters."""
        return origin in self._passing

    def hold(self, enter: Enter) -> None:
        """What goes on beside this waits for what is inside: so each event goes once."""
        self._passing.setdefault(enter.frame.origin, set()).add(enter)

    def let_pass(self, enter: Enter) -> bool:
        """It waits no more; whether it did."""
        waiting = self._passing.get(enter.frame.origin, set())
        if enter not in waiting:
            return False
        waiting.discard(enter)
        if not waiting:
            del self._passing[enter.frame.origin]
        return True
