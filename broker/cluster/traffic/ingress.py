"""Events that enter units through this node, and the onward frames that wait for them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence

import attrs

from broker.cluster.address import Address, UnitPath
from broker.cluster.traffic.effects import EnterUnit
from broker.cluster.traffic.received_range import ReceivedRange
from broker.cluster.traffic.sender import OriginSender
from broker.event.place import Mark

#: A removed entry starts anew.
MAX_ENTRIES = 4_096


@attrs.define
class _Entry:
    sender: OriginSender
    upto: Mark
    """The range may not be matched yet."""


class Ingress:
    def __init__(self, destinations_inside: Callable[[UnitPath], Sequence[Address]]) -> None:
        """`destinations_inside` returns the destinations for events that enter a unit."""
        self._destinations_inside = destinations_inside
        self._entries: OrderedDict[tuple[str, UnitPath], _Entry] = OrderedDict()
        self._holding: dict[str, set[EnterUnit]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[OriginSender]:
        return iter([each.sender for each in self._entries.values()])

    def update_destinations(self, restarted: Collection[Address]) -> None:
        for (_, unit), each in self._entries.items():
            each.sender.set_destinations(self._destinations_inside(unit), each.upto, restarted)

    def sender_for(self, received: ReceivedRange) -> OriginSender:
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
        entry.sender.intervals = frame.intervals or entry.sender.intervals
        entry.upto = max(entry.upto, span.upto)
        self._entries[frame.origin, unit] = entry
        return entry.sender

    def is_holding(self, origin: str) -> bool:
        return origin in self._holding

    def hold_onward(self, enter: EnterUnit) -> None:
        """Hold the onward frames, so that each event crosses a link once."""
        self._holding.setdefault(enter.frame.origin, set()).add(enter)

    def release_onward(self, enter: EnterUnit) -> bool:
        """Return False if the frames were released before."""
        waiting = self._holding.get(enter.frame.origin, set())
        if enter not in waiting:
            return False
        waiting.discard(enter)
        if not waiting:
            del self._holding[enter.frame.origin]
        return True
