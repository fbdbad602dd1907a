"""Which versions of the own tables are to be echoed, and the waves that find out."""

from __future__ import annotations

import attrs

from broker.cluster.tables.effects import TableEchoed
from broker.cluster.tables.table import GroupKey, TableKey, TableTimes
from broker.cluster.tables.waves import MAX_OWN_WAVES, Wave

#: Versions of one table that are told each; of more, later ones stand for the earliest.
_MAX_VERSIONS = 64


@attrs.define(eq=False)
class Echoes:
    """What is asked for one scope."""

    key: GroupKey
    _times: TableTimes
    _awaited: dict[TableKey, list[int]] = attrs.field(factory=dict)
    _probed_version: int = 0
    """The version that the newest wave asks for."""
    _backoff: float = 0.0
    retry_at: float | None = None
    """When a wave is to be sent again."""

    def request_echo(self, table: TableKey, version: int) -> None:
        """This version is to be echoed."""
        versions = self._awaited.setdefault(table, [])
        if version not in versions:
            versions.append(version)
        if len(versions) > _MAX_VERSIONS:
            del versions[0]

    def remove_table(self, table: TableKey) -> None:
        """The table is withdrawn."""
        self._awaited.pop(table, None)

    def needs_wave(self, under_way: int) -> bool:
        """Whether a wave is to be sent now."""
        newest = max((versions[-1] for versions in self._awaited.values()), default=0)
        if not newest or under_way >= MAX_OWN_WAVES or self.retry_at is not None:
            return False
        return newest > self._probed_version or not under_way

    def mark_sent(self, number: int) -> None:
        """A wave for this version is under way."""
        self._probed_version, self.retry_at = number, None

    def finish_wave(self, wave: Wave, now: float) -> list[TableEchoed]:
        """A wave is over: what it proved, if it is whole."""
        if not wave.is_whole:
            self._probed_version = 0
            if self.retry_at is None:
                self._backoff = min(
                    max(self._times.retry, 2 * self._backoff), self._times.max_retry
                )
                self.retry_at = now + self._backoff
            return []
        self._backoff, self.retry_at = 0.0, None
        return [
            TableEchoed(table, version, dict(wave.cuts))
            for table in list(self._awaited)
            for version in self._pop_proven(table, wave.number)
        ]

    def reset_request(self) -> None:
        """The tables got a higher version in which the earlier ones are contained."""
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
