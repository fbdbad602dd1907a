"""Replication of tables: updates, digests, refreshes and ageing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Protocol

from broker.cluster.address import Address, UnitPath, is_within
from broker.cluster.messages import Digest, Refresh, TableChange, Update
from broker.cluster.tables.effects import NeighbourSynchronised, Send, TableChanged, TablesEffect
from broker.cluster.tables.group import Group, TableDifference
from broker.cluster.tables.links import Links
from broker.cluster.tables.message_parts import split_update
from broker.cluster.tables.table import (
    GroupKey,
    TableKey,
    TableLimits,
    TableName,
    TableTimes,
)
from broker.errors import ProtocolError

DIGEST_END = Digest((), all=False, more=False)


class ReplicationListener(Protocol):
    def check_own_version(
        self,
        key: GroupKey,
        version: tuple[int, int],
        now: float,
        tables: tuple[TableChange, ...] = (),
    ) -> list[TablesEffect]:
        """Another node has this version of this node's own tables, and sent `tables` of them."""

    def tables_updated(self, key: GroupKey) -> None:
        """Another node's tables are newer now."""


class Replication:
    """Copies of all tables at this node, and its own ones."""

    def __init__(
        self,
        address: Address,
        links: Links,
        listener: ReplicationListener,
        times: TableTimes,
        limits: TableLimits,
        counts: Counter[str],
    ) -> None:
        self._address, self._links, self._listener = address, links, listener
        self._times, self._limits, self._counts = times, limits, counts
        self.groups: dict[GroupKey, Group] = {}

    def receive_update(self, neighbour: str, update: Update, now: float) -> list[TablesEffect]:
        key, version = GroupKey(update.author, update.scope), (update.incarnation, update.number)
        if not is_within(update.unit, update.scope) or not update.base < update.number:
            raise ProtocolError(f"inconsistent update of {update.author}")
        group = self.groups.get(key)
        if update.author == self._address.node:
            return self._listener.check_own_version(key, version, now, update.tables)
        seen_at = now - update.age / 1000
        if self._is_superseded(key, version, group) or seen_at + self._times.silence <= now:
            self._counts["stale"] += 1
            return []
        if update.base and (group is None or not self._fits(group, update)):
            return self._request_group(neighbour, key, group)
        if group is None:
            group = self._new_group(key, update.unit)
        is_restart = 0 < group.incarnation < update.incarnation
        differences = group.apply_changes(version, update.base, update.tables, self._limits)
        self.groups[key] = group
        group.unit, group.author_seen_at = update.unit, max(group.author_seen_at, seen_at)
        self._counts["updates"] += 1
        self._listener.tables_updated(key)
        effects = self._drop_older_incarnations(group)
        effects += self.flood_update(group, update.base, update.tables, now, neighbour)
        return [*effects, *_changed_effects(group, differences, is_restart)]

    def _is_superseded(self, key: GroupKey, version: tuple[int, int], group: Group | None) -> bool:
        if group is not None and version <= group.version:
            return True
        return any(version[0] < other.incarnation for other in self.groups_of(key.author))

    @staticmethod
    def _fits(group: Group, update: Update) -> bool:
        return group.incarnation == update.incarnation and update.base <= group.number

    def groups_of(self, author: str) -> list[Group]:
        unit = self._address.unit
        keys = (GroupKey(author, unit[:depth]) for depth in range(len(unit), -1, -1))
        return [self.groups[key] for key in keys if key in self.groups]

    def _new_group(self, key: GroupKey, unit: UnitPath) -> Group:
        if len(self.groups) >= self._limits.groups:
            raise ProtocolError(f"tables of over {self._limits.groups} authors")
        return Group(key, unit)

    def _drop_older_incarnations(self, group: Group) -> list[TablesEffect]:
        effects: list[TablesEffect] = []
        for other in self.groups_of(group.key.author):
            if 0 < other.incarnation < group.incarnation:
                effects += self._drop_group(other)
        return effects

    def _drop_group(self, group: Group) -> list[TablesEffect]:
        del self.groups[group.key]
        return [
            TableChanged(
                TableKey(*name, group.key.author),
                group.key.scope,
                dict.fromkeys(table),
                is_removed=True,
            )
            for name, table in sorted(group.tables.items())
        ]

    def receive_refresh(self, neighbour: str, refresh: Refresh, now: float) -> list[TablesEffect]:
        key, serial = GroupKey(refresh.author, refresh.scope), (refresh.incarnation, refresh.serial)
        if not is_within(refresh.unit, refresh.scope):
            raise ProtocolError(f"inconsistent refresh of {refresh.author}")
        if refresh.author == self._address.node:
            return self._listener.check_own_version(key, (refresh.incarnation, refresh.number), now)
        group = self.groups.get(key)
        seen_at = now - refresh.age / 1000
        known = (0, 0) if group is None else max(group.newest_refresh, (group.incarnation, 0))
        if serial <= known or seen_at + self._times.silence <= now:
            return []
        if group is None:
            group = self.groups[key] = self._new_group(key, refresh.unit)
            group.author_seen_at = seen_at
        group.newest_refresh = serial
        if group.incarnation == refresh.incarnation:
            group.author_seen_at = max(group.author_seen_at, seen_at)
        effects = self._links.flood(key.scope, [refresh], neighbour)
        if (refresh.incarnation, refresh.number) > group.version:
            effects += self._request_group(neighbour, key, group)
        return effects

    def remove_silent_authors(self, now: float) -> list[TablesEffect]:
        effects: list[TablesEffect] = []
        for group in list(self.groups.values()):
            own = group.key.author == self._address.node
            if not own and group.author_seen_at + self._times.silence <= now:
                self._counts["aged"] += 1
                effects += self._drop_group(group)
        return effects

    def _request_group(
        self, neighbour: str, key: GroupKey, group: Group | None
    ) -> list[TablesEffect]:
        self._counts["asked"] += 1
        version = (0, 0) if group is None else group.version
        return [Send(neighbour, Digest(((*key, *version),), False, False))]

    def receive_digest(self, neighbour: str, digest: Digest, now: float) -> list[TablesEffect]:
        peer = self._links.neighbours[neighbour]
        theirs = {GroupKey(*version[:2]): version[2:] for version in digest.versions}
        effects: list[TablesEffect] = []
        for key, version in theirs.items():
            if key.author == self._address.node:
                effects += self._listener.check_own_version(key, version, now)
        for key, group in self.groups.items():
            version = theirs.get(key, (0, 0) if digest.all else group.version)
            if group.number and is_within(peer.unit, key.scope):
                if group.version > version:
                    base, changes = group.changes_since(*version)
                    parts = split_update(self._make_update(group, base, changes, now))
                    effects += [Send(neighbour, part) for part in parts]
                elif digest.all and group.version == version and group.newest_refresh[1]:
                    effects.append(Send(neighbour, self.make_refresh(group, now)))
        if digest.all:
            peer.is_synchronised = True
            effects.append(Send(neighbour, DIGEST_END))
        elif digest == DIGEST_END and not peer.has_answered:
            peer.has_answered = True
            effects.append(NeighbourSynchronised(neighbour))
        return effects

    def flood_update(
        self,
        group: Group,
        base: int,
        changes: tuple[TableChange, ...],
        now: float,
        except_for: str = "",
    ) -> list[TablesEffect]:
        update = self._make_update(group, base, changes, now)
        return self._links.flood(group.key.scope, split_update(update), except_for)

    def _make_update(
        self, group: Group, base: int, changes: tuple[TableChange, ...], now: float
    ) -> Update:
        return Update(
            *(group.key.author, group.unit, group.key.scope, group.incarnation, base),
            *(group.number, self._age(group, now), changes, False),
        )

    def make_refresh(self, group: Group, now: float) -> Refresh:
        return Refresh(
            *(group.key.author, group.unit, group.key.scope, group.incarnation, group.number),
            *(group.newest_refresh[1], self._age(group, now)),
        )

    def _age(self, group: Group, now: float) -> int:
        own = group.key.author == self._address.node
        return 0 if own else max(0, round((now - group.author_seen_at) * 1000))


def _changed_effects(
    group: Group, differences: Mapping[TableName, TableDifference], is_restart: bool
) -> Iterator[TableChanged]:
    for name, (changes, is_removed) in differences.items():
        yield TableChanged(
            TableKey(*name, group.key.author), group.key.scope, changes, is_removed, is_restart
        )
