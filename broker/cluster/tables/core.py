"""Flooding of tables within units (Mspaces G5, G7; see protocols/tables.md).

Each node in a table's scope has a copy while the author is alive. Links are FIFO and lose nothing
while they are up.

The caller applies the effects of a call before the next call. So `cut` returns this node's place
after earlier changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from broker.cluster.address import Address, UnitPath, is_within
from broker.cluster.messages import (
    REMOVED,
    Digest,
    Message,
    Probe,
    Proof,
    Refresh,
    TableChange,
    Update,
    Value,
    check_value,
)
from broker.cluster.tables.echoes import Echoes
from broker.cluster.tables.effects import NameConflict, Send, TableEchoed, TablesEffect
from broker.cluster.tables.group import Group, effective_change
from broker.cluster.tables.links import MAX_INCARNATION, Links, LinkState
from broker.cluster.tables.message_parts import Reassembly, split_digest
from broker.cluster.tables.replication import Replication
from broker.cluster.tables.table import (
    GroupKey,
    TableKey,
    TableLimits,
    TableSnapshot,
    TableTimes,
)
from broker.cluster.tables.waves import CutSource, WaveEffect, WaveEnded, Waves
from broker.errors import Overloaded, ProtocolError

_TIMES, _LIMITS = TableTimes(), TableLimits()


class Tables:
    """All tables at a node: its own and the copies.

    `counts` has `updates`, `stale` ones, `asked` (requests for missing changes), `aged` out,
    `refused`, own `waves`, `broken` ones, and `above` (incarnations raised). `beyond` counts
    incarnations too high to exceed.
    """

    def __init__(
        self,
        address: Address,
        incarnation: int,
        cut: CutSource,
        times: TableTimes = _TIMES,
        limits: TableLimits = _LIMITS,
    ) -> None:
        self.address = address
        self.incarnation = incarnation
        self.counts: Counter[str] = Counter()
        self._times, self._limits = times, limits
        self._links = Links(address.unit)
        self._replication = Replication(address, self._links, self, times, limits, self.counts)
        self._waves = Waves(cut, self._has_version, times)
        self._echoes: dict[GroupKey, Echoes] = {}
        self._serial = 0
        self._refresh_at: float | None = None
        self._highest_seen = 0
        self._raise_at: float | None = None
        self._next_raise_at = float("-inf")
        self._raise_backoff = times.make_backoff()

    def get(self, key: TableKey) -> Mapping[str, Value]:
        """Empty if the table does not exist."""
        for depth in range(len(self.address.unit), -1, -1):
            group = self._replication.groups.get(GroupKey(key.author, self.address.unit[:depth]))
            if group is not None and key[:2] in group.tables:
                return group.tables[key[:2]]
        return {}

    def items(self, kind: str) -> Iterator[tuple[TableKey, Mapping[str, Value]]]:
        for group in self._replication.groups.values():
            for name, table in group.tables.items():
                if name[0] == kind:
                    yield TableKey(*name, group.key.author), table

    def version_of(self, key: TableKey, scope: UnitPath) -> tuple[int, int]:
        group = self._replication.groups.get(GroupKey(key.author, scope))
        return (0, 0) if group is None else group.version

    def snapshot(self) -> TableSnapshot:
        groups = self._replication.groups.values()
        return TableSnapshot(
            authors=len({group.key.author for group in groups}),
            tables=sum(len(group.tables) for group in groups),
            entries=sum(len(table) for group in groups for table in group.tables.values()),
            bytes=sum(group.bytes for group in groups),
        )

    def publish(
        self,
        kind: str,
        subject: str,
        scope: UnitPath,
        changes: Mapping[str, Value | None],
        now: float,
        *,
        echo: bool = False,
    ) -> tuple[int, list[TablesEffect]]:
        """Change entries of an own table, creating it if needed. Return its new version.

        With `echo` a wave proves later that all reachable nodes have it. Raises `ValueError` or
        `TypeError` for another scope or a value that can not be encoded; `Overloaded` if the table
        would be too large.
        """
        if not is_within(self.address.unit, scope):
            raise ValueError(f"{self.address} is outside {'.'.join(scope)!r}")
        changes = {key: check_value(value) for key, value in changes.items()}
        group = self._own_group(scope, now)
        name = (kind, subject)
        change = effective_change(name, group.tables.get(name), changes)
        if change is None and not echo:
            return group.number, []
        # An echo needs its own version: it proves a state after this call.
        effects = self._write_changes(group, () if change is None else (change,), now)
        if echo:
            self._echoes[group.key].request_echo(
                TableKey(kind, subject, group.key.author), group.number
            )
            effects += self._send_wave(group.key, now)
        return group.number, effects

    def withdraw(self, kind: str, subject: str, now: float) -> list[TablesEffect]:
        name = (kind, subject)
        effects: list[TablesEffect] = []
        for key, echoes in self._echoes.items():
            if name in self._replication.groups[key].tables:
                echoes.remove_table(TableKey(kind, subject, key.author))
                effects += self._write_changes(
                    self._replication.groups[key], ((*name, REMOVED, ()),), now
                )
        return effects

    def _own_group(self, scope: UnitPath, now: float) -> Group:
        key = GroupKey(self.address.node, scope)
        if key not in self._replication.groups:
            self._replication.groups[key] = Group(key, self.address.unit, self.incarnation)
            self._echoes[key] = Echoes(key, self._times.make_backoff())
            self._start_refreshing(now)
        return self._replication.groups[key]

    def _write_changes(
        self, group: Group, changes: tuple[TableChange, ...], now: float
    ) -> list[TablesEffect]:
        before = group.number
        try:
            group.apply_changes((self.incarnation, before + 1), before, changes, self._limits)
        except ProtocolError as error:
            raise Overloaded(f"the node's own table would be too large: {error}") from None
        return self._replication.flood_update(group, before, changes, now)

    def tables_updated(self, key: GroupKey) -> None:
        """Check the waves that wait for these tables."""
        self._waves.tables_updated(key)

    def check_own_version(
        self,
        key: GroupKey,
        version: tuple[int, int],
        now: float,
        tables: tuple[TableChange, ...] = (),
    ) -> list[TablesEffect]:
        """Handle another node's version of this node's own tables.

        A newer one shows that this process has lost its state, or another process uses its name.
        Then the node publishes its tables under a higher incarnation. If two processes alternate,
        the pause between raises doubles.
        """
        group = self._replication.groups.get(key)
        if version <= ((self.incarnation, 0) if group is None else group.version):
            return []
        if version[0] >= MAX_INCARNATION:
            self.counts["beyond"] += 1
            return []
        self._highest_seen = max(self._highest_seen, version[0])
        conflict: list[TablesEffect] = [NameConflict(tables)] if tables else []
        if self._raise_at is not None:
            return conflict
        if now < self._next_raise_at:
            self._raise_at = self._next_raise_at
            return conflict
        return conflict + self._raise_incarnation(now)

    def _raise_incarnation(self, now: float) -> list[TablesEffect]:
        self._next_raise_at = now + self._raise_backoff.next_wait(now)
        self._raise_backoff.report_up(now)
        self._raise_at = None
        self.counts["above"] += 1
        self.incarnation = self._highest_seen + 1
        effects: list[TablesEffect] = []
        for key, echoes in self._echoes.items():
            group = self._replication.groups[key]
            group.raise_version(self.incarnation, group.number + 1)
            base, changes = group.changes_since(0, 0)
            effects += self._replication.flood_update(group, base, changes, now)
            self._waves.cancel_own(key)
            echoes.reset_request()
            effects += self._send_wave(key, now)
        return effects

    def add_neighbour(self, name: str, unit: UnitPath, now: float) -> list[TablesEffect]:
        effects = self.remove_neighbour(name, now) if name in self._links.neighbours else []
        self._links.neighbours[name] = LinkState(unit, Reassembly(self._limits))
        self._start_refreshing(now)
        versions = tuple(
            (*group.key, *group.version)
            for group in self._replication.groups.values()
            if is_within(unit, group.key.scope) and group.number
        )
        return [*effects, *(Send(name, part) for part in split_digest(versions, all=True))]

    def remove_neighbour(self, name: str, now: float) -> list[TablesEffect]:
        if self._links.neighbours.pop(name, None) is None:
            return []
        return self._apply_wave_effects(self._waves.remove_neighbour(name), now)

    def receive_message(self, neighbour: str, message: Message, now: float) -> list[TablesEffect]:
        """Handle a message, unless its link is down.

        Raises `ProtocolError`, without a change, for an invalid one.
        """
        if neighbour not in self._links.neighbours:
            return []
        try:
            return self._dispatch(neighbour, message, now)
        except ProtocolError as error:
            self.counts["refused"] += 1
            raise ProtocolError(f"{neighbour}: {error}") from None

    def _dispatch(self, neighbour: str, message: Message, now: float) -> list[TablesEffect]:
        assembly = self._links.neighbours[neighbour].reassembly
        match message:
            case Update():
                self._links.check_scope(neighbour, message.scope, message.incarnation)
                update = assembly.add_update_part(message)
                return (
                    []
                    if update is None
                    else self._replication.receive_update(neighbour, update, now)
                )
            case Digest():
                for _, scope, incarnation, _ in message.versions:
                    self._links.check_scope(neighbour, scope, incarnation)
                digest = assembly.add_digest_part(message)
                return (
                    []
                    if digest is None
                    else self._replication.receive_digest(neighbour, digest, now)
                )
        assembly.check_complete(type(message).__name__)
        match message:
            case Refresh():
                self._links.check_scope(neighbour, message.scope, message.incarnation)
                return self._replication.receive_refresh(neighbour, message, now)
            case Probe():
                self._links.check_scope(neighbour, message.scope, message.incarnation)
                others = self._links.in_scope(message.scope, neighbour)
                return self._apply_wave_effects(
                    self._waves.receive_probe(neighbour, message, others, now), now
                )
            case Proof():
                return self._apply_wave_effects(self._waves.receive_proof(neighbour, message), now)
        raise ProtocolError(f"{type(message).__name__} is not a message of tables")

    def _has_version(self, key: GroupKey, incarnation: int, number: int) -> bool:
        group = self._replication.groups.get(key)
        return group is not None and group.version >= (incarnation, number)

    def _send_wave(self, key: GroupKey, now: float) -> list[TablesEffect]:
        echoes, group = self._echoes[key], self._replication.groups[key]
        if not echoes.needs_wave(self._waves.own_count(key)):
            return []
        self.counts["waves"] += 1
        echoes.mark_sent(group.number)
        effects = self._waves.start_wave(key, group.version, self._links.in_scope(key.scope), now)
        return self._apply_wave_effects(effects, now)

    def _apply_wave_effects(self, effects: list[WaveEffect], now: float) -> list[TablesEffect]:
        after: list[TablesEffect] = []
        for effect in effects:
            if isinstance(effect, WaveEnded):
                after += self._finish_wave(effect, now)
            else:
                after.append(effect)
        return after

    def _finish_wave(self, ended: WaveEnded, now: float) -> list[TablesEffect]:
        key = ended.wave.key[0]
        self.counts["broken"] += not ended.wave.is_whole
        echoed: list[TableEchoed] = self._echoes[key].finish_wave(ended.wave, now)
        return [*echoed, *self._send_wave(key, now)]

    def _start_refreshing(self, now: float) -> None:
        if self._refresh_at is None:
            self._refresh_at = now + self._times.refresh

    def next_timeout(self) -> float | None:
        times = [
            self._refresh_at,
            self._raise_at,
            self._waves.next_timeout(),
            *(e.retry_at for e in self._echoes.values()),
        ]
        return min((time for time in times if time is not None), default=None)

    def handle_timeout(self, now: float) -> list[TablesEffect]:
        effects: list[TablesEffect] = []
        if self._raise_at is not None and self._raise_at <= now:
            effects += self._raise_incarnation(now)
        if (waves_at := self._waves.next_timeout()) is not None and waves_at <= now:
            effects += self._apply_wave_effects(self._waves.handle_timeout(now), now)
        for key, echoes in self._echoes.items():
            if echoes.retry_at is not None and echoes.retry_at <= now:
                echoes.retry_at = None
                effects += self._send_wave(key, now)
        if self._refresh_at is not None and self._refresh_at <= now:
            self._refresh_at = now + self._times.refresh
            effects += self._refresh_own(now)
            effects += self._replication.remove_silent_authors(now)
        return effects

    def _refresh_own(self, now: float) -> list[TablesEffect]:
        self._serial += 1
        effects: list[TablesEffect] = []
        for key in self._echoes:
            group = self._replication.groups[key]
            if group.tables:
                group.newest_refresh = (group.incarnation, self._serial)
                effects += self._links.flood(
                    key.scope, [self._replication.make_refresh(group, now)]
                )
        return effects
