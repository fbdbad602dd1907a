"""How copies of tables become equal: updates, digests, refreshes and ageing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Protocol

from broker.cluster.address import Address, UnitPath, is_within
from broker.cluster.messages import Digest, Refresh, TableChange, Update
from broker.cluster.tables.effects import Changed, Send, Synchronised, TablesEffect
from broker.cluster.tables.group import Difference, Group
from broker.cluster.tables.links import Links
from broker.cluster.tables.message_parts import update_parts
from broker.cluster.tables.table import (
    GroupKey,
    TableKey,
    TableLimits,
    TableName,
    TableTimes,
)
from broker.errors import ProtocolError

#: What ends the answer to a digest of all: it asks for nothing.
ANSWERED = Digest((), all=False, more=False)


class Listener(Protocol):
    """Who must know what replication came across."""

    def heard_of_self(
        self,
        key: GroupKey,
        stand: tuple[int, int],
        now: float,
        tables: tuple[TableChange, ...] = (),
    ) -> list[TablesEffect]:
        """Somebody has this version of this node's own tables, and sent these of them."""

    def tables_came(self, key: GroupKey) -> None:
        """Another's tables are newer now."""


class Replication:
    """The copies of all tables that this node holds, its own among them."""

    def __init__(
        self,
        address: Address,
        links: Links,
        listener: Listener,
        times: TableTimes,
        limits: TableLimits,
        counts: Counter[str],
    ) -> None:
        self._address, self._links, self._listener = address, links, listener
        self._times, self._limits, self._counts = times, limits, counts
        self.groups: dict[GroupKey, Group] = {}

    # ------------------------------------------------------------------------- updates

    def updated(self, neighbour: str, update: Update, now: float) -> list[TablesEffect]:
        """A neighbour sent what it learnt: take it, and pass it on, if it is new."""
        key, stand = GroupKey(update.author, update.scope), (update.incarnation, update.number)
        if not is_within(update.unit, update.scope) or not update.base < update.number:
            raise ProtocolError(f"an update of {update.author} that contradicts itself")
        group = self.groups.get(key)
        if update.author == self._address.node:
            return self._listener.heard_of_self(key, stand, now, update.tables)
        heard = now - update.age / 1000
        if self._is_superseded(key, stand, group) or heard + self._times.silence <= now:
            self._counts["stale"] += 1
            return []
        if update.base and (group is None or not self._fits(group, update)):
            return self._ask(neighbour, key, group)
        if group is None:
            group = self._room_for(key, update.unit)
        anew = 0 < group.incarnation < update.incarnation
        differences = group.apply(stand, update.base, update.tables, self._limits)
        self.groups[key] = group
        group.unit, group.heard = update.unit, max(group.heard, heard)
        self._counts["updates"] += 1
        self._listener.tables_came(key)
        effects = self._replace_older(group)
        effects += self.flood_update(group, update.base, update.tables, now, neighbour)
        return [*effects, *_changes(group, differences, anew)]

    def _is_superseded(self, key: GroupKey, stand: tuple[int, int], group: Group | None) -> bool:
        if group is not None and stand <= group.stand:
            return True
        return any(stand[0] < other.incarnation for other in self.groups_of(key.author))

    @staticmethod
    def _fits(group: Group, update: Update) -> bool:
        return group.incarnation == update.incarnation and update.base <= group.number

    def groups_of(self, author: str) -> list[Group]:
        """What is held of an author: each node sees its own scopes only."""
        unit = self._address.unit
        keys = (GroupKey(author, unit[:depth]) for depth in range(len(unit), -1, -1))
        return [self.groups[key] for key in keys if key in self.groups]

    def _room_for(self, key: GroupKey, unit: UnitPath) -> Group:
        if len(self.groups) >= self._limits.groups:
            raise ProtocolError(f"tables of over {self._limits.groups} authors")
        return Group(key, unit)

    def _replace_older(self, group: Group) -> list[TablesEffect]:
        """A higher incarnation replaces all tables of the author."""
        effects: list[TablesEffect] = []
        for other in self.groups_of(group.key.author):
            if 0 < other.incarnation < group.incarnation:
                effects += self._drop(other)
        return effects

    def _drop(self, group: Group) -> list[TablesEffect]:
        del self.groups[group.key]
        return [
            Changed(
                TableKey(*name, group.key.author), group.key.scope, dict.fromkeys(table), gone=True
            )
            for name, table in sorted(group.tables.items())
        ]

    # ------------------------------------------------------------------------- refreshes

    def refreshed(self, neighbour: str, refresh: Refresh, now: float) -> list[TablesEffect]:
        """An author lives; ask the neighbour for what is lacking."""
        key, serial = GroupKey(refresh.author, refresh.scope), (refresh.incarnation, refresh.serial)
        if not is_within(refresh.unit, refresh.scope):
            raise ProtocolError(f"a refresh of {refresh.author} that contradicts itself")
        if refresh.author == self._address.node:
            return self._listener.heard_of_self(key, (refresh.incarnation, refresh.number), now)
        group = self.groups.get(key)
        heard = now - refresh.age / 1000
        known = (0, 0) if group is None else max(group.seen, (group.incarnation, 0))
        if serial <= known or heard + self._times.silence <= now:
            return []
        if group is None:
            group = self.groups[key] = self._room_for(key, refresh.unit)
            group.heard = heard
        group.seen = serial
        if group.incarnation == refresh.incarnation:
            group.heard = max(group.heard, heard)
        effects = self._links.flood(key.scope, [refresh], neighbour)
        if (refresh.incarnation, refresh.number) > group.stand:
            effects += self._ask(neighbour, key, group)
        return effects

    def age_out(self, now: float) -> list[TablesEffect]:
        """Drop the tables of authors that were not heard of."""
        effects: list[TablesEffect] = []
        for group in list(self.groups.values()):
            own = group.key.author == self._address.node
            if not own and group.heard + self._times.silence <= now:
                self._counts["aged"] += 1
                effects += self._drop(group)
        return effects

    # ------------------------------------------------------------------------- synchronisation

    def _ask(self, neighbour: str, key: GroupKey, group: Group | None) -> list[TablesEffect]:
        self._counts["asked"] += 1
        stand = (0, 0) if group is None else group.stand
        return [Send(neighbour, Digest(((*key, *stand),), False, False))]

    def compared(self, neighbour: str, digest: Digest, now: float) -> list[TablesEffect]:
        """Send what the neighbour lacks."""
        peer = self._links.neighbours[neighbour]
        theirs = {GroupKey(*stand[:2]): stand[2:] for stand in digest.stands}
        effects: list[TablesEffect] = []
        for key, stand in theirs.items():
            if key.author == self._address.node:
                effects += self._listener.heard_of_self(key, stand, now)
        for key, group in self.groups.items():
            stand = theirs.get(key, (0, 0) if digest.all else group.stand)
            if group.number and is_within(peer.unit, key.scope):
                if group.stand > stand:
                    base, changes = group.since(*stand)
                    parts = update_parts(self._update(group, base, changes, now))
                    effects += [Send(neighbour, part) for part in parts]
                elif digest.all and group.stand == stand and group.seen[1]:
                    effects.append(Send(neighbour, self.refresh_of(group, now)))
        if digest.all:
            peer.synchronised = True
            effects.append(Send(neighbour, ANSWERED))
        elif digest == ANSWERED and not peer.even:
            peer.even = True
            effects.append(Synchronised(neighbour))
        return effects

    def flood_update(
        self,
        group: Group,
        base: int,
        changes: tuple[TableChange, ...],
        now: float,
        but: str = "",
    ) -> list[TablesEffect]:
        """Send changes to all neighbours in scope but the one that sent them."""
        update = self._update(group, base, changes, now)
        return self._links.flood(group.key.scope, update_parts(update), but)

    def _update(
        self, group: Group, base: int, changes: tuple[TableChange, ...], now: float
    ) -> Update:
        return Update(
            *(group.key.author, group.unit, group.key.scope, group.incarnation, base),
            *(group.number, self._age(group, now), changes, False),
        )

    def refresh_of(self, group: Group, now: float) -> Refresh:
        """What says that the group's author lives, as far as is known here."""
        return Refresh(
            *(group.key.author, group.unit, group.key.scope, group.incarnation, group.number),
            *(group.seen[1], self._age(group, now)),
        )

    def _age(self, group: Group, now: float) -> int:
        own = group.key.author == self._address.node
        return 0 if own else max(0, round((now - group.heard) * 1000))


def _changes(
    group: Group, differences: Mapping[TableName, Difference], anew: bool
) -> Iterator[Changed]:
    for name, (changes, gone) in differences.items():
        yield Changed(TableKey(*name, group.key.author), group.key.scope, changes, gone, anew)
