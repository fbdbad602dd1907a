"""What this node wants itself: the fewest queries that say so, and which of its keys flow."""

from __future__ import annotations

from collections.abc import Hashable

from broker.cluster.interest.entries import interest_id, encode_interest
from broker.cluster.interest.propagation import Propagation
from broker.cluster.messages import Value
from broker.event.stream import StreamPattern
from broker.matching.covering.interest_union import InterestDelta, InterestUnion
from broker.matching.covering.stream_interest import CoverNode, StreamInterest
from broker.matching.query.query import Query

#: Versions of the profile that are followed each; of more, later ones stand for the earliest.
_MAX_PROPAGATIONS = 64


class OwnProfile:
    """The own profile between two publications, and the climbs of those before."""

    def __init__(self, max_queries: int) -> None:
        self._union = InterestUnion(max_queries)
        self._nodes: dict[StreamInterest, CoverNode] = {}
        """What covers what, of the same."""
        self._published: dict[StreamInterest, Propagation | None] = {}
        """What the profile has, or will have when it is published; None: it flows."""
        self._propagation_of: dict[Hashable, Propagation] = {}
        self._next: Propagation | None = None
        self.changes: dict[str, Value | None] = {}
        """What is to be published."""
        self.propagations: list[Propagation] = []
        """All that were published and have not arrived."""

    @property
    def has_changes(self) -> bool:
        """Whether the profile is to be published."""
        return bool(self.changes) or self._next is not None

    def add_interest(self, key: Hashable, pattern: StreamPattern, query: Query) -> bool:
        """Somebody wants something; whether it flows already. `ValueError` if the key is used."""
        delta = self._union.add(key, pattern, query)
        climb = self._propagation_for(StreamInterest(pattern, query))
        self._apply_delta(delta)
        if climb is not None:
            climb.keys.add(key)
            self._propagation_of[key] = climb
        return climb is None

    def remove_interest(self, key: Hashable) -> None:
        """Who had this key does not want it any more. `KeyError` if there is none."""
        self._apply_delta(self._union.remove(key))
        climb = self._propagation_of.pop(key, None)
        if climb is not None:
            climb.keys.discard(key)

    def mark_published(self) -> Propagation | None:
        """All changes are published now; the climb that begins with it, if any."""
        self.changes = {}
        climb, self._next = self._next, None
        if climb is not None:
            self.propagations.append(climb)
        if len(self.propagations) > _MAX_PROPAGATIONS:
            self._merge(self.propagations.pop(0), self.propagations[0])
        return climb

    def _merge(self, older: Propagation, newer: Propagation) -> None:
        """What a newer version's arrival proves holds for an older one too."""
        newer.keys |= older.keys
        self._propagation_of.update(dict.fromkeys(older.keys, newer))
        for want, climb in self._published.items():
            if climb is older:
                self._published[want] = newer

    def complete(self, climb: Propagation) -> set[Hashable]:
        """It flows. The keys that waited for it."""
        self.propagations.remove(climb)
        for want, waits_for in self._published.items():
            if waits_for is climb:
                self._published[want] = None
        for key in climb.keys:
            del self._propagation_of[key]
        return climb.keys

    def _apply_delta(self, delta: InterestDelta) -> None:
        """What was covered before flows, or climbs, as what covered it: in every later version of
        the profile something covers it too."""
        climbs = {want: self._propagation_for(want) for want in delta.announce}
        for want in delta.withdraw:
            del self._published[want], self._nodes[want]
            self.changes[interest_id(want)] = None
        for want, climb in climbs.items():
            self._published[want], self._nodes[want] = climb, CoverNode(want)
            self.changes[interest_id(want)] = encode_interest(want)

    def _propagation_for(self, want: StreamInterest) -> Propagation | None:
        """Whose arrival makes the want flow; None if it flows already."""
        if want in self._published:
            return self._published[want]
        node = CoverNode(want)
        climbs = [self._published[sent] for sent, wide in self._nodes.items() if wide.covers(node)]
        if None in climbs:
            return None
        if climbs:
            return min((c for c in climbs if c is not None), key=self._position)
        if self._next is None:
            self._next = Propagation()
        return self._next

    def _position(self, climb: Propagation) -> int:
        return self.propagations.index(climb) if climb in self.propagations else len(self.propagations)
