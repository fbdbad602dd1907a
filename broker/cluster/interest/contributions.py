"""Interest of other nodes and units, by the author of its table."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import NamedTuple

import attrs

from broker.cluster.address import UnitPath, is_within, parse_unit
from broker.cluster.interest.effects import (
    BadInterest,
    Destination,
    InterestAdded,
    InterestEffect,
    InterestRemoved,
    QueuePoliciesChanged,
)
from broker.cluster.interest.entries import SETTLED_KEY, decode_interest, interest_id
from broker.cluster.interest.queue_policies import INTEREST_KINDS, apply_policies
from broker.cluster.messages import Value
from broker.cluster.tables.table import TableKey
from broker.errors import BadName
from broker.matching.covering.stream_interest import StreamInterest
from broker.streams.queue_policy import BLOCK, IQueuePolicy, merge_policies

PROFILE, SUMMARY = "profile", "summary"


class Contributor(NamedTuple):
    scope: UnitPath
    author: str


@attrs.define(eq=False)
class Contribution:
    """Interest in one table, and the version that all nodes in its scope have."""

    interests: dict[str, StreamInterest] = attrs.field(factory=dict)
    settled: tuple[int, int] = (0, 0)


class ContributionChange(NamedTuple):
    contributor: Contributor
    added: Mapping[str, StreamInterest]
    removed: Mapping[str, StreamInterest]
    is_settled: bool
    """True if a newer version is settled."""
    has_new_policies: bool = False


class Contributions:
    def __init__(self, cluster: UnitPath, node: str) -> None:
        self._cluster, self._node = cluster, node
        self.by_table: dict[TableKey, Contribution] = {}
        self._scopes: dict[TableKey, UnitPath] = {}
        self._uses: dict[tuple[Destination, StreamInterest], int] = {}
        self._policies: dict[TableKey, dict[str, IQueuePolicy]] = {}
        """By the table with the interest, and the entry's id."""
        self._known_policies: dict[Destination, dict[str, IQueuePolicy]] = {}
        """As in the last effect."""
        self.bad_entries = 0

    def of_unit(self, scope: UnitPath) -> Iterator[tuple[Contributor, Contribution]]:
        for key, contribution in self.by_table.items():
            if self._scopes[key] == scope:
                yield Contributor(scope, key.author), contribution

    def policies_of_unit(self, scope: UnitPath) -> dict[Hashable, IQueuePolicy]:
        """Return the named queue policies, by contributor and entry."""
        return {
            (Contributor(scope, key.author), entry): policy
            for key, policies in self._policies.items()
            if self._scopes.get(key) == scope
            for entry, policy in policies.items()
        }

    def apply_change(
        self,
        key: TableKey,
        scope: UnitPath,
        changes: Mapping[str, Value | None],
        *,
        is_removed: bool = False,
    ) -> tuple[ContributionChange | None, list[InterestEffect]]:
        destination = self._destination(key, scope)
        if destination is None:
            self.bad_entries += 1
            return None, []
        if key.kind in INTEREST_KINDS:
            table = key._replace(kind=INTEREST_KINDS[key.kind])
            policies = self._policies.setdefault(table, {})
            apply_policies(policies, changes)
            if is_removed or not policies:
                del self._policies[table]
            change = ContributionChange(Contributor(scope, key.author), {}, {}, False, True)
            return change, list(self._policy_effects(destination))
        contribution = self.by_table.setdefault(key, Contribution())
        self._scopes[key] = scope
        effects: list[InterestEffect] = []
        added: dict[str, StreamInterest] = {}
        removed: dict[str, StreamInterest] = {}
        for entry, value in changes.items():
            if entry == SETTLED_KEY:
                continue
            before = contribution.interests.pop(entry, None)
            if before is not None:
                removed[entry] = before
            if value is not None:
                interest, reason = decode_interest(value)
                if reason:
                    self.bad_entries += 1
                    effects.append(BadInterest(key.author, entry, reason))
                contribution.interests[entry] = added[entry] = interest
        is_settled = SETTLED_KEY in changes and _advance_settled(contribution, changes[SETTLED_KEY])
        if is_removed:
            del self.by_table[key], self._scopes[key]
        if not self._includes_this_node(destination):
            effects += self._destination_effects(destination, added, removed)
            effects += self._policy_effects(destination)
        return ContributionChange(
            Contributor(scope, key.author), added, removed, is_settled
        ), effects

    def _destination(self, key: TableKey, scope: UnitPath) -> Destination | None:
        """None for an invalid table."""
        if key.kind in INTEREST_KINDS:
            key = key._replace(kind=INTEREST_KINDS[key.kind])
        if key.kind == PROFILE:
            return key.author if key.subject == key.author and scope == self._cluster else None
        try:
            unit = parse_unit(key.subject)
        except BadName:
            return None
        return unit if len(unit) == len(scope) + 1 and is_within(unit, scope) else None

    def _policy_effects(self, destination: Destination) -> Iterator[QueuePoliciesChanged]:
        known = self._known_policies.get(destination, {})
        if self._includes_this_node(destination) or not (known or self._policies):
            return
        tables = [
            key for key in self.by_table if self._destination(key, self._scopes[key]) == destination
        ]
        merged: dict[str, IQueuePolicy] = {}
        for key in tables:
            named = self._policies.get(key, {})
            for entry, interest in self.by_table[key].interests.items():
                policy, id = named.get(entry, BLOCK), interest_id(interest)
                merged[id] = merge_policies(merged.get(id, policy), policy)
        policies = {id: policy for id, policy in merged.items() if policy != BLOCK}
        if policies != known:
            self._known_policies[destination] = policies
            if not policies:
                del self._known_policies[destination]
            yield QueuePoliciesChanged(destination, policies)

    def _includes_this_node(self, destination: Destination) -> bool:
        if isinstance(destination, str):
            return destination == self._node
        return is_within(self._cluster, destination)

    def _destination_effects(
        self,
        destination: Destination,
        added: Mapping[str, StreamInterest],
        removed: Mapping[str, StreamInterest],
    ) -> Iterator[InterestAdded | InterestRemoved]:
        """Additions before removals, so that no event is missed in between."""
        for interest in added.values():
            count = self._uses.get((destination, interest), 0)
            self._uses[destination, interest] = count + 1
            if not count:
                yield InterestAdded(destination, interest_id(interest), interest)
        for interest in removed.values():
            self._uses[destination, interest] -= 1
            if not self._uses[destination, interest]:
                del self._uses[destination, interest]
                yield InterestRemoved(destination, interest_id(interest))


def _advance_settled(contribution: Contribution, value: Value | None) -> bool:
    version = parse_version(value)
    if version is None or version <= contribution.settled:
        return False
    contribution.settled = version
    return True


def parse_version(value: Value | None) -> tuple[int, int] | None:
    if isinstance(value, tuple) and len(value) == 2 and all(type(each) is int for each in value):
        return (value[0], value[1])
    return None
