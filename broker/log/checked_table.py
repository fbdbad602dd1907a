"""Tables of small values, each with a checksum and a copy in another table.

A damaged value is restored from its copy. If both are damaged, the value is lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import lmdb

from broker.log.checksum import ValueDamaged, add_checksum, checksum_of, has_checksum, verify_value

#: Longest key of LMDB.
_LONGEST_KEY = 511


class CheckedTable:
    """`name` is a unique letter; all tables share the table of copies."""

    def __init__(
        self,
        name: bytes,
        table: Any,
        copies: Any,
        *,
        accepts_unchecked: bool = False,
        is_rising: bool = False,
    ) -> None:
        """`accepts_unchecked`: values of format 3, without a checksum. `is_rising`: values only
        rise, so the lower of value and copy was left by a lost write."""
        self._name = name
        self._table = table
        self._copies = copies
        self._accepts_unchecked = accepts_unchecked
        self._is_rising = is_rising
        self.damaged: Counter[str] = Counter()
        """Counts since the log was opened: `healed` from the copy, and `lost`."""

    def put(self, txn: lmdb.Transaction, key: bytes, value: bytes) -> None:
        named = self._name + key
        stored = add_checksum(named, value)
        txn.put(key, stored, db=self._table)
        copy = named if len(named) < _LONGEST_KEY else self._copy_key(key)
        txn.put(copy, stored, db=self._copies)

    def delete(self, txn: lmdb.Transaction, key: bytes) -> None:
        txn.delete(key, db=self._table)
        txn.delete(self._copy_key(key), db=self._copies)

    def get(self, txn: lmdb.Transaction, key: bytes) -> bytes | None:
        """Raises `ValueDamaged` for a lost value."""
        stored = txn.get(key, db=self._table)
        if stored is not None:
            try:
                return verify_value(self._name + key, stored)
            except ValueDamaged:
                pass
        copy = txn.get(self._copy_key(key), db=self._copies)
        if (
            copy is None
            and stored is not None
            and self._accepts_unchecked
            and not has_checksum(stored)
        ):
            # Format 3 had no copies.
            return bytes(stored)
        if copy is None:
            if stored is None:
                return None
            self.damaged["lost"] += 1
            raise ValueDamaged("a value is damaged and has no copy")
        try:
            value = verify_value(self._name + key, copy)
        except ValueDamaged:
            if stored is None:
                # A copy's damaged key, or no value.
                return None
            self.damaged["lost"] += 1
            raise
        self.damaged["healed"] += 1
        return value

    def get_or_none(self, txn: lmdb.Transaction, key: bytes) -> bytes | None:
        """Return None too for a lost value."""
        try:
            return self.get(txn, key)
        except ValueDamaged:
            return None

    def items(
        self, txn: lmdb.Transaction, prefix: bytes = b""
    ) -> Iterator[tuple[bytes, bytes | None]]:
        """Yield keys and values; None for a lost value."""
        for key in sorted({*self._keys(txn, self._table, prefix), *self._copied_keys(txn, prefix)}):
            try:
                value = self.get(txn, key)
            except ValueDamaged:
                yield key, None
            else:
                if value is not None:
                    yield key, value

    def _copied_keys(self, txn: lmdb.Transaction, prefix: bytes) -> list[bytes]:
        name_length = len(self._name)
        found = (key[name_length:] for key in self._keys(txn, self._copies, self._name + prefix))
        return [key for key in found if name_length + len(key) < _LONGEST_KEY]

    def _keys(self, txn: lmdb.Transaction, table: Any, prefix: bytes) -> list[bytes]:
        found = []
        with txn.cursor(db=table) as cursor:
            more = cursor.set_range(prefix) if prefix else cursor.first()
            while more and bytes(cursor.key()).startswith(prefix):
                found.append(bytes(cursor.key()))
                more = cursor.next()
        return found

    def _copy_key(self, key: bytes) -> bytes:
        copy = self._name + key
        if len(copy) < _LONGEST_KEY:
            return copy
        return copy[: _LONGEST_KEY - 8] + checksum_of(key).to_bytes(8, "big")

    def heal(self, txn: lmdb.Transaction, prefix: bytes = b"") -> list[bytes]:
        """Restore values and copies from each other. Return the keys of lost values."""
        lost = []
        for key, value in list(self.items(txn, prefix)):
            if value is None:
                lost.append(key)
            elif not self.is_sound(txn, key):
                self.put(txn, key, self._greater(txn, key, value))
        return lost

    def _greater(self, txn: lmdb.Transaction, key: bytes, value: bytes) -> bytes:
        copy = txn.get(self._copy_key(key), db=self._copies)
        if not self._is_rising or copy is None:
            return value
        try:
            return max(value, verify_value(self._name + key, copy))
        except ValueDamaged:
            return value

    def is_sound(self, txn: lmdb.Transaction, key: bytes) -> bool:
        stored = txn.get(key, db=self._table)
        copy = txn.get(self._copy_key(key), db=self._copies)
        if (
            copy is None
            and stored is not None
            and self._accepts_unchecked
            and not has_checksum(stored)
        ):
            return True
        return stored is not None and copy is not None and bytes(stored) == bytes(copy)

    def upgrade(self, txn: lmdb.Transaction, prefix: bytes = b"") -> None:
        """Add checksums and copies to values of format 3."""
        for key in self._keys(txn, self._table, prefix):
            self.put(txn, key, bytes(txn.get(key, default=b"", db=self._table)))
