"""Observations of one run, recorded by simulation and soak."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from broker.event.place import Place
from broker.testing.guarantees.records import Acknowledged, EventKey, Kind, Published
from broker.testing.guarantees.subscriber import Subscriber


class Observations:
    """Times are seconds of any one clock. They appear in traces only, except for publications
    without an observed place."""

    def __init__(self) -> None:
        self.events: dict[EventKey, Published] = {}
        self.receipts: dict[EventKey, Acknowledged] = {}
        self.places: defaultdict[EventKey, set[Place]] = defaultdict(set)
        """A republished event may have several."""
        self.subscribers: list[Subscriber] = []
        self.faults: list[str] = []
        """One line for each fault, in order."""
        self.has_all_places = False
        """True if `places` has all places of the nodes' logs at the end of the run."""

    def record_publication(self, event: Published) -> None:
        self.events[event.key] = event

    def record_receipt(
        self, key: EventKey, durability: str, place: Place | None = None, at: float = 0.0
    ) -> None:
        """Record a receipt; one for a duplicate has no place."""
        self.receipts[key] = Acknowledged(durability, at)
        if place is not None:
            self.record_place(key, place)

    def record_place(self, key: EventKey, place: Place) -> None:
        self.places[key].add(place)

    def add_subscriber(
        self,
        name: str,
        matches: Callable[[Published], bool],
        *,
        kind: Kind = Kind.DURABLE,
        clearance: int = 2,
    ) -> Subscriber:
        made = Subscriber(name, matches, kind, clearance)
        self.subscribers.append(made)
        return made

    def record_fault(self, line: str) -> None:
        self.faults.append(line)
