"""What others want: the wants in the tables of nodes and units, by who wrote them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import attrs

from broker.cluster.address import UnitPath, is_within, parse_unit
from broker.cluster.interest.effects import BadWant, Destination, ProfilesEffect, Unwanted, Wanted
from broker.cluster.interest.entries import SETTLED, read, want_id
from broker.cluster.messages import Value
from broker.cluster.tables.table import TableKey
from broker.errors import BadName
from broker.matching.covering.stream_interest import Want

PROFILE, SUMMARY = "profile", "summary"


class Member(NamedTuple):
    """Who contributes to the wants of a unit: `scope` is that unit."""

    scope: UnitPath
    author: str


@attrs.define(eq=False)
class Contribution:
    """The wants of one table, and up to which version everybody in its scope has them."""

    wants: dict[str, Want] = attrs.field(factory=dict)
    settled: tuple[int, int] = (0, 0)


class Change(NamedTuple):
    """What became different in a contribution."""

    member: Member
    came: Mapping[str, Want]
    went: Mapping[str, Want]
    settled: bool
    """Whether it is settled at a newer version."""


class Members:
    """All contributions that this node knows, its own among them, and where they call events to."""

    def __init__(self, cluster: UnitPath, node: str) -> None:
        self._cluster, self._node = cluster, node
        self.contributions: dict[TableKey, Contribution] = {}
        self._scopes: dict[TableKey, UnitPath] = {}
        self._wanting: dict[tuple[Destination, Want], int] = {}
        self.bad = 0
        """How many entries were no wants."""

    def of(self, scope: UnitPath) -> Iterator[tuple[Member, Contribution]]:
        """Who contributes to the wants of a unit, and what."""
        for key, contribution in self.contributions.items():
            if self._scopes[key] == scope:
                yield Member(scope, key.author), contribution

    def changed(
        self,
        key: TableKey,
        scope: UnitPath,
        changes: Mapping[str, Value | None],
        *,
        gone: bool = False,
    ) -> tuple[Change | None, list[ProfilesEffect]]:
        """A table of wants changed."""
        destination = self._destination(key, scope)
        if destination is None:
            self.bad += 1
            return None, []
        contribution = self.contributions.setdefault(key, Contribution())
        self._scopes[key] = scope
        effects: list[ProfilesEffect] = []
        came: dict[str, Want] = {}
        went: dict[str, Want] = {}
        for entry, value in changes.items():
            if entry == SETTLED:
                continue
            before = contribution.wants.pop(entry, None)
            if before is not None:
                went[entry] = before
            if value is not None:
                want, why = read(value)
                if why:
                    self.bad += 1
                    effects.append(BadWant(key.author, entry, why))
                contribution.wants[entry] = came[entry] = want
        settled = SETTLED in changes and _settle(contribution, changes[SETTLED])
        if gone:
            del self.contributions[key], self._scopes[key]
        if not self._contains_this(destination):
            effects += self._call(destination, came, went)
        return Change(Member(scope, key.author), came, went, settled), effects

    def _destination(self, key: TableKey, scope: UnitPath) -> Destination | None:
        """Where events for these wants go; None if the table is not what it says."""
        if key.kind == PROFILE:
            return key.author if key.subject == key.author and scope == self._cluster else None
        try:
            unit = parse_unit(key.subject)
        except BadName:
            return None
        return unit if len(unit) == len(scope) + 1 and is_within(unit, scope) else None

    def _contains_this(self, destination: Destination) -> bool:
        if isinstance(destination, str):
            return destination == self._node
        return is_within(self._cluster, destination)

    def _call(
        self, destination: Destination, came: Mapping[str, Want], went: Mapping[str, Want]
    ) -> Iterator[Wanted | Unwanted]:
        """First what is wanted, so that nothing is missed in between."""
        for want in came.values():
            count = self._wanting.get((destination, want), 0)
            self._wanting[destination, want] = count + 1
            if not count:
                yield Wanted(destination, want_id(want), want)
        for want in went.values():
            self._wanting[destination, want] -= 1
            if not self._wanting[destination, want]:
                del self._wanting[destination, want]
                yield Unwanted(destination, want_id(want))


def _settle(contribution: Contribution, value: Value | None) -> bool:
    stand = stand_of(value)
    if stand is None or stand <= contribution.settled:
        return False
    contribution.settled = stand
    return True


def stand_of(value: Value | None) -> tuple[int, int] | None:
    """(incarnation, version) as another node wrote it; None if it is none."""
    if isinstance(value, tuple) and len(value) == 2 and all(type(each) is int for each in value):
        return (value[0], value[1])
    return None
