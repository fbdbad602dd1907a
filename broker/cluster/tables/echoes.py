"""Which versions of the own tables are to be echoed, and the waves that find out."""

from __future__ import annotations

import attrs

from broker.cluster.tables.effects import Echoed
from broker.cluster.tables.table import GroupKey, TableKey, TableTimes
from broker.cluster.tables.waves import MOST_OF_OWN, Wave

#: Versions of one table that are told each; of more, later ones stand for the earliest.
_MOST_VERSIONS = 64


@attrs.define(eq=False)
class Echoes:
    """What is asked for one scope."""

    key: GroupKey
    _times: TableTimes
    _awaited: dict[TableKey, list[int]] = attrs.field(factory=dict)
    _asked: int = 0
    """The version that the newest wave asks for."""
    _pause: float = 0.0
    at: float | None = None
    """When a wave is to be sent again."""

    def ask(self, table: TableKey, version: int) -> None:
        """This version is to be echoed."""
        versions = self._awaited.setdefault(table, [])
        if version not in versions:
            versions.append(version)
        if len(versions) > _MOST_VERSIONS:
            del versions[0]

    def forget(self, table: TableKey) -> None:
        """The table is withdrawn."""
        self._awaited.pop(table, None)

    def wants_wave(self, under_way: int) -> bool:
        """Whether a wave is to be sent now."""
        newest = max((versions[-1] for versions in self._awaited.values()), default=0)
        if not newest or under_way >= MOST_OF_OWN or self.at is not None:
            return False
        return newest > self._asked or not under_way

    def sent(self, number: int) -> None:
        """A wave for this version is under way."""
        self._asked, self.at = number, None

    def ended(self, wave: Wave, now: float) -> list[Echoed]:
        """A wave is over: what it proved, if it is whole."""
        if not wave.whole:
            self._asked = 0
            if self.at is None:
                self._pause = min(max(self._times.again, 2 * self._pause), self._times.again_most)
                self.at = now + self._pause
            return []
        self._pause, self.at = 0.0, None
        return [
            Echoed(table, version, dict(wave.cuts))
            for table in list(self._awaited)
            for version in self._proven(table, wave.number)
        ]

    def rise(self) -> None:
        """The tables got a higher version in which the earlier ones are contained."""
        self._asked = 0
        self.at = None

    def _proven(self, table: TableKey, number: int) -> list[int]:
        versions = self._awaited[table]
        proven = [version for version in versions if version <= number]
        rest = [version for version in versions if version > number]
        if rest:
            self._awaited[table] = rest
        else:
            del self._awaited[table]
        return proven
