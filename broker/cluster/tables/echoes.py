"""Echoes of own table versions: proof by waves that all reachable nodes have them."""

from __future__ import annotations

import attrs

from broker.cluster.tables.effects import TableEchoed
from broker.cluster.tables.table import GroupKey, TableKey
from broker.cluster.tables.waves import MAX_OWN_WAVES, Wave
from broker.transport.backoff import Backoff

#: Beyond it, a later version's echo replaces the earliest.
_MAX_VERSIONS = 64


@attrs.define(eq=False)
class Echoes:
    key: GroupKey
    _backoff: Backoff
    _awaited: dict[TableKey, list[int]] = attrs.field(factory=dict)
    _probed_version: int = 0
    retry_at: float | None = None

    def request_echo(self, table: TableKey, version: int) -> None:
        versions = self._awaited.setdefault(table, [])
        if version not in versions:
            versions.append(version)
        if len(versions) > _MAX_VERSIONS:
            del versions[0]

    def remove_table(self, table: TableKey) -> None:
        self._awaited.pop(table, None)

    def needs_wave(self, under_way: int) -> bool:
        newest = max((versions[-1] for versions in self._awaited.values()), default=0)
        if not newest or under_way >= MAX_OWN_WAVES or self.retry_at is not None:
            return False
        return newest > self._probed_version or not under_way

    def mark_sent(self, number: int) -> None:
        self._probed_version, self.retry_at = number, None

    def finish_wave(self, wave: Wave, now: float) -> list[TableEchoed]:
        if not wave.is_whole:
            self._probed_version = 0
            if self.retry_at is None:
                self.retry_at = now + self._backoff.next_wait(now)
            return []
        self._backoff.report_progress()
        self.retry_at = None
        return [
            TableEchoed(table, version, dict(wave.cuts))
            for table in list(self._awaited)
            for version in self._pop_proven(table, wave.number)
        ]

    def reset_request(self) -> None:
        """Reset: a new incarnation's version contains the earlier ones."""
        self._probed_version = 0
        self.retry_at = None

    def _pop_proven(self, table: TableKey, number: int) -> list[int]:
        versions = self._awaited[table]
        proven = [version for version in versions if version <= number]
        rest = [version for version in versions if version > number]
        if rest:
            self._awaited[table] = rest
        else:
            del self._awaited[table]
        return proven
