"""Interest of disappeared authors, which stays in force for some time."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import attrs

from broker.cluster.address import UnitPath
from broker.cluster.tables.core import Tables
from broker.cluster.tables.effects import TableChanged, TablesEffect
from broker.cluster.tables.table import TableKey

#: Seconds until a new or returning leader announces the interest of a disappeared author again.
INTEREST_EXPIRY = 10.0


@attrs.define
class _Expiring:
    scope: UnitPath
    until: float
    entries: set[str]


class ExpiringInterest:
    """Delays the withdrawal of entries of tables by `INTEREST_EXPIRY` seconds."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._expiring: dict[TableKey, _Expiring] = {}

    def delay(self, effect: TableChanged, entries: Iterable[str], now: float) -> None:
        # An author that disappears again gets the full time again.
        before = self._expiring.get(effect.key)
        known = before.entries if before else set()
        self._expiring[effect.key] = _Expiring(
            effect.scope, now + INTEREST_EXPIRY, known.union(entries)
        )

    def next_timeout(self) -> float | None:
        return min((each.until for each in self._expiring.values()), default=None)

    def handle_timeout(self, now: float, present: Collection[TableKey]) -> list[TablesEffect]:
        """Return the due withdrawals. `present` are the tables that exist."""
        effects: list[TablesEffect] = []
        for key, expiring in list(self._expiring.items()):
            if expiring.until <= now:
                del self._expiring[key]
                entries = expiring.entries - self._tables.get(key).keys()
                changes = dict.fromkeys(sorted(entries))
                effects.append(TableChanged(key, expiring.scope, changes, key not in present))
        return effects
