"""What this node wants itself: the fewest queries that say so, and which of its keys flow."""

from __future__ import annotations

from collections.abc import Hashable

from broker.cluster.interest.entries import want_id, written
from broker.cluster.interest.propagation import Climb
from broker.cluster.messages import Value
from broker.event.stream import StreamPattern
from broker.matching.covering.interest_union import Delta, Union
from broker.matching.covering.stream_interest import Node, Want
from broker.matching.query.query import Query

#: Versions of the profile that are followed each; of more, later ones stand for the earliest.
_MOST_CLIMBS = 64


class OwnWants:
    """The own profile between two publications, and the climbs of those before."""

    def __init__(self, max_queries: int) -> None:
        self._union = Union(max_queries)
        self._nodes: dict[Want, Node] = {}
        """What covers what, of the same."""
        self._sent: dict[Want, Climb | None] = {}
        """What the profile has, or will have when it is published; None: it flows."""
        self._climb_of: dict[Hashable, Climb] = {}
        self._next: Climb | None = None
        self.changes: dict[str, Value | None] = {}
        """What is to be published."""
        self.climbs: list[Climb] = []
        """All that were published and have not arrived."""

    @property
    def to_publish(self) -> bool:
        """Whether the profile is to be published."""
        return bool(self.changes) or self._next is not None

    def want(self, key: Hashable, pattern: StreamPattern, query: Query) -> bool:
        """Somebody wants something; whether it flows already. `ValueError` if the key is used."""
        delta = self._union.add(key, pattern, query)
        climb = self._climb_to(Want(pattern, query))
        self._take(delta)
        if climb is not None:
            climb.keys.add(key)
            self._climb_of[key] = climb
        return climb is None

    def unwant(self, key: Hashable) -> None:
        """Who had this key does not want it any more. `KeyError` if there is none."""
        self._take(self._union.remove(key))
        climb = self._climb_of.pop(key, None)
        if climb is not None:
            climb.keys.discard(key)

    def published(self) -> Climb | None:
        """All changes are published now; the climb that begins with it, if any."""
        self.changes = {}
        climb, self._next = self._next, None
        if climb is not None:
            self.climbs.append(climb)
        if len(self.climbs) > _MOST_CLIMBS:
            self._join(self.climbs.pop(0), self.climbs[0])
        return climb

    def _join(self, older: Climb, newer: Climb) -> None:
        """What a newer version's arrival proves holds for an older one too."""
        newer.keys |= older.keys
        self._climb_of.update(dict.fromkeys(older.keys, newer))
        for want, climb in self._sent.items():
            if climb is older:
                self._sent[want] = newer

    def arrived(self, climb: Climb) -> set[Hashable]:
        """It flows. The keys that waited for it."""
        self.climbs.remove(climb)
        for want, waits_for in self._sent.items():
            if waits_for is climb:
                self._sent[want] = None
        for key in climb.keys:
            del self._climb_of[key]
        return climb.keys

    def _take(self, delta: Delta) -> None:
        """What was covered before flows, or climbs, as what covered it: in every later version of
        the profile something covers it too."""
        climbs = {want: self._climb_to(want) for want in delta.send}
        for want in delta.withdraw:
            del self._sent[want], self._nodes[want]
            self.changes[want_id(want)] = None
        for want, climb in climbs.items():
            self._sent[want], self._nodes[want] = climb, Node(want)
            self.changes[want_id(want)] = written(want)

    def _climb_to(self, want: Want) -> Climb | None:
        """Whose arrival makes the want flow; None if it flows already."""
        if want in self._sent:
            return self._sent[want]
        node = Node(want)
        climbs = [self._sent[sent] for sent, wide in self._nodes.items() if wide.covers(node)]
        if None in climbs:
            return None
        if climbs:
            return min((c for c in climbs if c is not None), key=self._age)
        if self._next is None:
            self._next = Climb()
        return self._next

    def _age(self, climb: Climb) -> int:
        return self.climbs.index(climb) if climb in self.climbs else len(self.climbs)
