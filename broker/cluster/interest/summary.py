"""Summary of a unit's interest: the leader's union, and the part of it that is echoed."""

from __future__ import annotations

from broker.cluster.address import UnitPath
from broker.cluster.interest.contributions import ContributionChange, Contributions
from broker.cluster.interest.entries import encode_interest, interest_id
from broker.cluster.interest.queue_policies import PublishedPolicies
from broker.cluster.messages import Value
from broker.matching.covering.interest_union import InterestDelta, InterestUnion
from broker.streams.queue_policy import BLOCK

Version = tuple[int, int]
_MAX_AWAITED = 64


class Summary:
    """A leader's union of one unit's interest, and the echoed part of it."""

    def __init__(self, unit: UnitPath, members: Contributions, max_queries: int) -> None:
        self.unit = unit
        self._contributions = members
        self._union = InterestUnion(max_queries)
        self.term = 0
        """Ascends: a later leader's summary replaces an earlier one's."""
        self._awaited: dict[int, dict[str, Version]] = {}
        self.changes: dict[str, Value | None] = {}
        self.needs_echo = True
        """True if it covers more, or members are settled."""
        self.covered: dict[str, Version] = {}
        """By member: the version of its interest that the echoed summary covers."""
        self._published_policies = PublishedPolicies()
        self._published_policies.is_outdated = bool(members.policies_of_unit(unit))
        for member, contribution in members.of_unit(unit):
            for entry, interest in contribution.interests.items():
                self._apply_delta(
                    self._union.add((member, entry), interest.pattern, interest.query)
                )

    @property
    def has_changes(self) -> bool:
        return bool(self.changes) or self.needs_echo or self._published_policies.is_outdated

    def take_policy_changes(self) -> dict[str, Value | None]:
        """Return the changes of the table of queue policies."""
        published = self._published_policies
        policies = self._contributions.policies_of_unit(self.unit)
        if not (policies or published.is_outdated):
            return {}
        return published.update(self._union, lambda key: policies.get(key, BLOCK))

    def apply_change(self, change: ContributionChange) -> None:
        for entry in change.removed.keys() & change.added.keys():
            self._apply_delta(self._union.remove((change.contributor, entry)))
        for entry, interest in change.added.items():
            self._apply_delta(
                self._union.add((change.contributor, entry), interest.pattern, interest.query)
            )
        for entry in change.removed.keys() - change.added.keys():
            self._apply_delta(self._union.remove((change.contributor, entry)))
        self.needs_echo = self.needs_echo or change.is_settled
        self._published_policies.is_outdated |= change.has_new_policies or (
            bool(change.added or change.removed)
            and bool(self._contributions.policies_of_unit(self.unit))
        )

    def _apply_delta(self, delta: InterestDelta) -> None:
        for interest in delta.withdraw:
            self.changes[interest_id(interest)] = None
        for interest in delta.announce:
            self.changes[interest_id(interest)] = encode_interest(interest)
            self.needs_echo = True

    def mark_published(self, version: int) -> None:
        """Record a publication. Its echo proves the versions that are settled now."""
        self.changes = {}
        if self.needs_echo:
            self._awaited[version] = {
                member.author: contribution.settled
                for member, contribution in self._contributions.of_unit(self.unit)
                if contribution.settled > (0, 0)
            }
            if len(self._awaited) > _MAX_AWAITED:
                del self._awaited[min(self._awaited)]
        self.needs_echo = False

    def current_coverage(self) -> dict[str, Version]:
        """Without former members."""
        present = {member.author for member, _ in self._contributions.of_unit(self.unit)}
        return {author: version for author, version in self.covered.items() if author in present}

    def mark_echoed(self, version: int) -> bool:
        """Return True if the echo covers more."""
        proven = [number for number in self._awaited if number <= version]
        if not proven:
            return False
        self.covered = self._awaited[max(proven)]
        for number in proven:
            del self._awaited[number]
        return True
