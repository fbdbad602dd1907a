"""All tables of one author and scope, as stored at this node."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

import attrs

from broker.cluster.address import UnitPath
from broker.cluster.messages import CHANGED, REMOVED, REPLACED, TableChange, Value
from broker.cluster.tables.table import GroupKey, TableLimits, TableName
from broker.errors import ProtocolError
from broker.wire.codec import pack

#: Nodes that lack more get all tables.
_MAX_HISTORY = 64
#: Changes may exceed the size of all tables by so many bytes.
_SMALL_BYTES = 4096

#: Changed entries (None: removed); True if the table was removed.
TableDifference = tuple[Mapping[str, Value | None], bool]


@attrs.define(eq=False)
class Group:
    """Tables of one author and scope under one version number, which each change increments."""

    key: GroupKey
    unit: UnitPath
    incarnation: int = 0
    number: int = 0
    author_seen_at: float = float("-inf")
    newest_refresh: tuple[int, int] = (0, 0)
    """Incarnation and serial."""
    tables: dict[TableName, dict[str, Value]] = attrs.field(factory=dict)
    _sizes: dict[TableName, int] = attrs.field(factory=dict)
    _history: deque[tuple[int, tuple[TableChange, ...]]] = attrs.field(factory=deque)
    """(number before, changes), consecutive up to `number`."""

    @property
    def version(self) -> tuple[int, int]:
        """Versions compare by age."""
        return (self.incarnation, self.number)

    def changes_since(self, incarnation: int, number: int) -> tuple[int, tuple[TableChange, ...]]:
        """Return (base, changes); base 0: all tables."""
        if incarnation == self.incarnation and self._history and self._history[0][0] <= number:
            # Changes may be applied twice: the last one counts.
            start = max(before for before, _ in self._history if before <= number)
            changes = tuple(
                each for before, group in self._history if before >= start for each in group
            )
            if sum(map(_change_bytes, changes)) <= sum(self._sizes.values()) + _SMALL_BYTES:
                return start, changes
        return 0, tuple(
            (kind, subject, REPLACED, tuple(table.items()))
            for (kind, subject), table in self.tables.items()
        )

    @property
    def bytes(self) -> int:
        return sum(self._sizes.values())

    def apply_changes(
        self,
        version: tuple[int, int],
        base: int,
        changes: tuple[TableChange, ...],
        limits: TableLimits,
    ) -> dict[TableName, TableDifference]:
        """Raises `ProtocolError`, without a change, over limits."""
        tables, sizes = _copy_changed(
            self.tables if base else {}, self._sizes if base else {}, changes
        )
        _check_limits(tables, sizes, limits)
        touched = {(kind, subject) for kind, subject, _, _ in changes}
        if not base:
            touched |= self.tables.keys()
        differences = {
            name: difference
            for name in sorted(touched)
            if (difference := _diff_table(self.tables.get(name), tables.get(name))) is not None
        }
        self._record_history(base, changes)
        self.tables, self._sizes = tables, sizes
        self.incarnation, self.number = version
        return differences

    def raise_version(self, incarnation: int, number: int) -> None:
        self.incarnation, self.number = incarnation, number
        self._history.clear()

    def _record_history(self, base: int, changes: tuple[TableChange, ...]) -> None:
        if not base:
            self._history.clear()
            return
        self._history.append((self.number, changes))
        if len(self._history) > _MAX_HISTORY:
            self._history.popleft()


def _change_bytes(change: TableChange) -> int:
    return sum(packed_size(key, value) for key, value in change[3])


def _copy_changed(
    tables: Mapping[TableName, dict[str, Value]],
    sizes: Mapping[TableName, int],
    changes: Iterable[TableChange],
) -> tuple[dict[TableName, dict[str, Value]], dict[TableName, int]]:
    """Return changed copies; tables without changes are shared."""
    after, sizes_after = dict(tables), dict(sizes)
    copied: set[TableName] = set()
    for kind, subject, how, entries in changes:
        name = (kind, subject)
        if how == REMOVED:
            after.pop(name, None)
            sizes_after.pop(name, None)
            copied.discard(name)
            continue
        if how == REPLACED:
            after[name], sizes_after[name] = {}, 0
        elif name not in copied:
            after[name] = dict(after.get(name, {}))
        copied.add(name)
        sizes_after[name] = _set_entries(after[name], sizes_after.get(name, 0), entries)
    return after, sizes_after


def _set_entries(
    table: dict[str, Value], size: int, entries: Iterable[tuple[str, Value | None]]
) -> int:
    for key, value in entries:
        if key in table:
            size -= packed_size(key, table[key])
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value
            size += packed_size(key, value)
    return size


def packed_size(key: str, value: Value | None) -> int:
    return len(pack((key, value)))


def _check_limits(
    tables: Mapping[TableName, Mapping[str, Value]],
    sizes: Mapping[TableName, int],
    limits: TableLimits,
) -> None:
    if len(tables) > limits.tables:
        raise ProtocolError(f"an author with {len(tables)} tables, over {limits.tables}")
    longest = max(map(len, tables.values()), default=0)
    if longest > limits.entries:
        raise ProtocolError(f"a table of {longest} entries, over {limits.entries}")
    if sum(sizes.values()) > limits.bytes:
        raise ProtocolError(f"an author with {sum(sizes.values())} bytes, over {limits.bytes}")


def _diff_table(
    before: Mapping[str, Value] | None, after: Mapping[str, Value] | None
) -> TableDifference | None:
    if after is None:
        return None if before is None else (dict.fromkeys(before), True)
    old: Mapping[str, Value] = before or {}
    changes: dict[str, Value | None] = {
        key: value for key, value in after.items() if key not in old or old[key] != value
    }
    changes.update(dict.fromkeys(key for key in old if key not in after))
    return (changes, False) if changes or before is None else None


def effective_change(
    name: TableName, table: Mapping[str, Value] | None, changes: Mapping[str, Value | None]
) -> TableChange | None:
    if table is None:
        entries = tuple((key, value) for key, value in changes.items() if value is not None)
        return (*name, REPLACED, entries)
    entries_ = tuple((k, v) for k, v in changes.items() if table.get(k) != v)
    return (*name, CHANGED, entries_) if entries_ else None
