"""What enters units by this node: how far it was sent on inside, and what passes by beside it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence

import attrs

from broker.cluster.address import Address, UnitPath
from broker.cluster.traffic.effects import EnterUnit
from broker.cluster.traffic.received_range import ReceivedRange
from broker.cluster.traffic.sender import OriginSender
from broker.event.place import Mark

#: Origins, by the units that they enter here, of which it is remembered how far they were sent on;
#: of another one that begins anew.
MAX_ENTRIES = 4_096


@attrs.define
class _Entry:
    """What enters a unit here of one origin."""

    sender: OriginSender
    upto: Mark
    """Of all ranges that came, whether they are matched yet or not."""


class Ingress:
    """Of all origins."""

    def __init__(self, destinations_inside: Callable[[UnitPath], Sequence[Address]]) -> None:
        """`inside` says among whom is divided what enters a unit."""
        self._destinations_inside = destinations_inside
        self._entries: OrderedDict[tuple[str, UnitPath], _Entry] = OrderedDict()
        self._holding: dict[str, set[EnterUnit]] = {}
        """By origin what is matched now, and has not let pass what goes on beside it."""

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[OriginSender]:
        return iter([each.sender for each in self._entries.values()])

    def update_destinations(self, restarted: Collection[Address]) -> None:
        """Who is inside may be others now; those of `anew` are other processes than before."""
        for (_, unit), each in self._entries.items():
            each.sender.set_destinations(self._destinations_inside(unit), each.upto, restarted)

    def sender_for(self, received: ReceivedRange) -> OriginSender:
        """By which a range goes on inside."""
        frame, span = received.frame, received.range
        unit = span.destination.unit
        entry = self._entries.pop((frame.origin, unit), None)
        if entry is None:
            departures = OriginSender(frame.origin, frame.origin_node, span.after)
            departures.set_destinations(
                self._destinations_inside(unit), span.first_after or span.after
            )
            entry = _Entry(departures, span.upto)
            while len(self._entries) >= MAX_ENTRIES:
                self._entries.popitem(last=False)
        entry.sender.record_origin_node(frame.origin_node)
        entry.sender.history = frame.history
        entry.upto = max(entry.upto, span.upto)
        self._entries[frame.origin, unit] = entry
        return entry.sender

    # ------------------------------------------------------------------ what passes by

    def is_holding(self, origin: str) -> bool:
        """Whether what passes by has to stay behind what enters."""
        return origin in self._holding

    def hold_onward(self, enter: EnterUnit) -> None:
        """What goes on beside this waits for what is inside: so each event goes once."""
        self._holding.setdefault(enter.frame.origin, set()).add(enter)

    def release_onward(self, enter: EnterUnit) -> bool:
        """It waits no more; whether it did."""
        waiting = self._holding.get(enter.frame.origin, set())
        if enter not in waiting:
            return False
        waiting.discard(enter)
        if not waiting:
            del self._holding[enter.frame.origin]
        return True
