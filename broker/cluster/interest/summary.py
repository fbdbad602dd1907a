"""What a unit wants as a whole: the union that its leader keeps, and what of it is echoed."""

from __future__ import annotations

from broker.cluster.address import UnitPath
from broker.cluster.interest.contributions import Change, Members
from broker.cluster.interest.entries import want_id, written
from broker.cluster.messages import Value
from broker.matching.covering.interest_union import Delta, Union

Stand = tuple[int, int]
#: Summaries under way of which it is known what they cover.
_MOST_AWAITED = 64


class Summary:
    """A leader's summary of one unit. It begins with all that the members want."""

    def __init__(self, unit: UnitPath, members: Members, max_queries: int) -> None:
        self.unit = unit
        self._members = members
        self._union = Union(max_queries)
        self.term = 0
        """Leaders of a unit count up: a later one's summary stands in for an earlier one's."""
        self._awaited: dict[int, dict[str, Stand]] = {}
        self.changes: dict[str, Value | None] = {}
        """What is to be published."""
        self.to_echo = True
        """Whether the next publication is to be echoed: it covers more, or members are settled."""
        self.covered: dict[str, Stand] = {}
        """By member: the version of its wants that the echoed summary covers."""
        for member, contribution in members.of(unit):
            for entry, want in contribution.wants.items():
                self._take(self._union.add((member, entry), want.pattern, want.query))

    @property
    def to_publish(self) -> bool:
        """Whether the summary is to be published."""
        return bool(self.changes) or self.to_echo

    def changed(self, change: Change) -> None:
        """A member's wants changed; it is one of this unit."""
        for entry in change.went.keys() & change.came.keys():
            self._take(self._union.remove((change.member, entry)))
        for entry, want in change.came.items():
            self._take(self._union.add((change.member, entry), want.pattern, want.query))
        for entry in change.went.keys() - change.came.keys():
            self._take(self._union.remove((change.member, entry)))
        self.to_echo = self.to_echo or change.settled

    def _take(self, delta: Delta) -> None:
        for want in delta.withdraw:
            self.changes[want_id(want)] = None
        for want in delta.send:
            self.changes[want_id(want)] = written(want)
            self.to_echo = True

    def published(self, version: int) -> None:
        """All changes are published, in this version; its echo proves what is settled now."""
        self.changes = {}
        if self.to_echo:
            self._awaited[version] = {
                member.author: contribution.settled
                for member, contribution in self._members.of(self.unit)
                if contribution.settled > (0, 0)
            }
            if len(self._awaited) > _MOST_AWAITED:
                del self._awaited[min(self._awaited)]
        self.to_echo = False

    def covered_now(self) -> dict[str, Stand]:
        """What is covered of those who are members still."""
        present = {member.author for member, _ in self._members.of(self.unit)}
        return {author: stand for author, stand in self.covered.items() if author in present}

    def echoed(self, version: int) -> bool:
        """The scope above has this version; whether that tells anything new."""
        proven = [number for number in self._awaited if number <= version]
        if not proven:
            return False
        self.covered = self._awaited[max(proven)]
        for number in proven:
            del self._awaited[number]
        return True
