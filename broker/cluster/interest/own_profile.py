"""The node's own profile: the smallest union of its interest, and the keys that are active."""

from __future__ import annotations

from collections.abc import Hashable

from broker.cluster.interest.entries import encode_interest, interest_id
from broker.cluster.interest.propagation import Propagation
from broker.cluster.interest.queue_policies import PublishedPolicies
from broker.cluster.messages import Value
from broker.event.stream import StreamPattern
from broker.matching.covering.interest_union import InterestDelta, InterestUnion
from broker.matching.covering.stream_interest import CoverNode, StreamInterest
from broker.matching.query.query import Query
from broker.streams.queue_policy import BLOCK, IQueuePolicy

#: Beyond it, a later version replaces the earliest.
_MAX_PROPAGATIONS = 64


class OwnProfile:
    """The smallest union of the node's own interest, and its keys that are not active yet."""

    def __init__(self, max_queries: int) -> None:
        self._union = InterestUnion(max_queries)
        self._nodes: dict[StreamInterest, CoverNode] = {}
        self._published: dict[StreamInterest, Propagation | None] = {}
        """None: the interest is active."""
        self._propagation_of: dict[Hashable, Propagation] = {}
        self._next: Propagation | None = None
        self.changes: dict[str, Value | None] = {}
        self.propagations: list[Propagation] = []
        self._policies: dict[Hashable, IQueuePolicy] = {}
        """Other than `block`."""
        self._published_policies = PublishedPolicies()

    @property
    def has_changes(self) -> bool:
        return bool(self.changes) or self._next is not None or self._published_policies.is_outdated

    def set_policy(self, key: Hashable, policy: IQueuePolicy) -> None:
        """Set the queue policy of a key's interest."""
        if self._policies.pop(key, BLOCK) != policy:
            self._published_policies.is_outdated = True
        if policy != BLOCK:
            self._policies[key] = policy

    def take_policy_changes(self) -> dict[str, Value | None]:
        """Return the changes of the table of queue policies."""
        published = self._published_policies
        if not (self._policies or published.is_outdated):
            return {}
        return published.update(self._union, lambda key: self._policies.get(key, BLOCK))

    def add_interest(self, key: Hashable, pattern: StreamPattern, query: Query) -> bool:
        """Return True if the interest is active already. Raises `ValueError` for a used key."""
        delta = self._union.add(key, pattern, query)
        propagation = self._propagation_for(StreamInterest(pattern, query))
        self._apply_delta(delta)
        if propagation is not None:
            propagation.keys.add(key)
            self._propagation_of[key] = propagation
        self._published_policies.is_outdated |= bool(self._policies)
        return propagation is None

    def remove_interest(self, key: Hashable) -> None:
        """Raises `KeyError` for an unknown key."""
        self._apply_delta(self._union.remove(key))
        self._published_policies.is_outdated |= bool(self._policies)
        self._policies.pop(key, None)
        propagation = self._propagation_of.pop(key, None)
        if propagation is not None:
            propagation.keys.discard(key)

    def mark_published(self) -> Propagation | None:
        self.changes = {}
        propagation, self._next = self._next, None
        if propagation is not None:
            self.propagations.append(propagation)
        if len(self.propagations) > _MAX_PROPAGATIONS:
            self._merge(self.propagations.pop(0), self.propagations[0])
        return propagation

    def _merge(self, older: Propagation, newer: Propagation) -> None:
        """A newer version's success proves the older one."""
        newer.keys |= older.keys
        self._propagation_of.update(dict.fromkeys(older.keys, newer))
        for interest, propagation in self._published.items():
            if propagation is older:
                self._published[interest] = newer

    def complete(self, propagation: Propagation) -> set[Hashable]:
        """Return the keys that are active now."""
        self.propagations.remove(propagation)
        for interest, awaited in self._published.items():
            if awaited is propagation:
                self._published[interest] = None
        for key in propagation.keys:
            del self._propagation_of[key]
        return propagation.keys

    def _apply_delta(self, delta: InterestDelta) -> None:
        """Newly sent interest inherits the state of the interest that covered it."""
        propagations = {interest: self._propagation_for(interest) for interest in delta.announce}
        for interest in delta.withdraw:
            del self._published[interest], self._nodes[interest]
            self.changes[interest_id(interest)] = None
        for interest, propagation in propagations.items():
            self._published[interest], self._nodes[interest] = propagation, CoverNode(interest)
            self.changes[interest_id(interest)] = encode_interest(interest)

    def _propagation_for(self, interest: StreamInterest) -> Propagation | None:
        """None if the interest is active."""
        if interest in self._published:
            return self._published[interest]
        node = CoverNode(interest)
        propagations = [
            self._published[sent] for sent, wider in self._nodes.items() if wider.covers(node)
        ]
        if None in propagations:
            return None
        if propagations:
            return min((c for c in propagations if c is not None), key=self._position)
        if self._next is None:
            self._next = Propagation()
        return self._next

    def _position(self, propagation: Propagation) -> int:
        return (
            self.propagations.index(propagation)
            if propagation in self.propagations
            else len(self.propagations)
        )
