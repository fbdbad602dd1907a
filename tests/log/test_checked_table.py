from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import lmdb
import pytest

from broker.log.checked_table import CheckedTable
from broker.log.checksum import ValueDamaged
from tests.log.bit_damage import flipped

KEY, VALUE = b"key", b"value"


@attrs.define
class Table:
    txn: lmdb.Transaction
    table: Any
    copies: Any

    def values(self, *, lazy: bool = False) -> CheckedTable:
        return CheckedTable(b"n", self.table, self.copies, accepts_unchecked=lazy)

    def damage(self, *, value: bool = True, copy: bool = True) -> None:
        for damaged, key, table in ((value, KEY, self.table), (copy, b"n" + KEY, self.copies)):
            if damaged:
                stored = bytes(self.txn.get(key, b"", db=table))
                self.txn.put(key, flipped(stored, 90), db=table)

    def copy(self) -> bytes | None:
        found = self.txn.get(b"n" + KEY, db=self.copies)
        return None if found is None else bytes(found)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Table]:
    with lmdb.open(str(tmp_path), max_dbs=2) as env:
        tables = [env.open_db(name) for name in (b"values", b"copies")]
        with env.begin(write=True) as txn:
            yield Table(txn, *tables)


def test_a_damaged_value_is_had_of_its_copy_and_written_again(opened: Table) -> None:
    values = opened.values()
    values.put(opened.txn, KEY, VALUE)
    assert values.is_sound(opened.txn, KEY)
    for damaged in ({"copy": False}, {"value": False}):
        opened.damage(**damaged)
        assert values.get(opened.txn, KEY) == VALUE
        assert not values.is_sound(opened.txn, KEY)
        assert values.heal(opened.txn) == [] and values.is_sound(opened.txn, KEY)
    assert values.damaged["lost"] == 0 < values.damaged["healed"]


@pytest.mark.parametrize("has_copy", [False, True])
def test_a_value_that_is_damaged_with_its_copy_is_counted_as_lost(
    opened: Table, has_copy: bool
) -> None:
    values = opened.values()
    values.put(opened.txn, KEY, VALUE)
    opened.damage()
    if not has_copy:
        opened.txn.delete(b"n" + KEY, db=opened.copies)
    with pytest.raises(ValueDamaged):
        values.get(opened.txn, KEY)
    assert values.damaged == {"lost": 1}
    assert values.get_or_none(opened.txn, KEY) is None
    assert list(values.items(opened.txn)) == [(KEY, None)]
    assert values.heal(opened.txn) == [KEY]


def test_a_copy_alone_that_is_damaged_is_no_loss(opened: Table) -> None:
    values = opened.values()
    values.put(opened.txn, KEY, VALUE)
    opened.txn.delete(KEY, db=opened.table)
    opened.damage(value=False)
    assert values.get(opened.txn, KEY) is None and values.damaged == {}


def test_a_value_of_the_older_format_needs_no_copy(opened: Table) -> None:
    opened.txn.put(KEY, VALUE, db=opened.table)
    values = opened.values(lazy=True)
    assert values.get(opened.txn, KEY) == VALUE
    assert values.is_sound(opened.txn, KEY)
    assert values.heal(opened.txn) == [] and opened.copy() is None
    with pytest.raises(ValueDamaged):
        opened.values().get(opened.txn, KEY)
    # Its next change writes a copy, which is required then.
    values.put(opened.txn, KEY, VALUE)
    copy = opened.copy()
    opened.txn.delete(b"n" + KEY, db=opened.copies)
    assert not values.is_sound(opened.txn, KEY)
    assert values.heal(opened.txn) == [] and opened.copy() == copy is not None
