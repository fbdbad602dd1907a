"""One block of the order at a site: its leaves, or only their roots."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from broker.order_certificates.certificate import SignedCertificate
from broker.order_certificates.leaf import Key, Leaf, decode_leaf, key_of
from broker.order_certificates.merkle import hash_leaf, hash_leaves, root_of


class BlockRoots(NamedTuple):
    events_in_time: int
    root_in_time: bytes
    events: int
    root: bytes


class Block:
    """Leaves in the order of their keys. Without leaves the block accepts no event any more."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.is_partial = False
        """True if an event is not in the leaves."""
        self.signed: SignedCertificate | None = None
        self._data: list[bytes] = []
        self._hashes: list[bytes] = []
        self._late: set[Key] = set()
        self._roots: BlockRoots | None = None
        """Of dropped leaves."""

    @property
    def has_leaves(self) -> bool:
        return self._roots is None

    @property
    def count(self) -> int:
        return len(self._data) if self._roots is None else self._roots.events

    @property
    def data(self) -> Sequence[bytes]:
        """The leaves as bytes, in order; none if they are dropped."""
        return self._data

    @property
    def hashes(self) -> Sequence[bytes]:
        return self._hashes

    @property
    def hashes_in_time(self) -> Sequence[bytes]:
        if not self._late:
            return self._hashes
        pairs = zip(self._data, self._hashes, strict=True)
        return [each for data, each in pairs if key_of(data) not in self._late]

    def is_late(self, index: int) -> bool:
        return bool(self._late) and key_of(self._data[index]) in self._late

    def leaves(self) -> Iterator[Leaf]:
        return map(decode_leaf, self._data)

    def add(self, key: Key, data: bytes, *, is_late: bool) -> bool:
        """Add a leaf as bytes. Return False if its message is there."""
        index = len(self._data)
        if not self._is_above(key):
            index = bisect_left(self._data, key, key=key_of)
            if key_of(self._data[index]) == key:
                return False
        self._data.insert(index, data)
        self._hashes.insert(index, hash_leaf(data))
        if is_late:
            self._late.add(key)
        return True

    def extend(self, first: Key, data: Sequence[bytes]) -> bool:
        """Add leaves in time, whose keys rise from the first one on. Return False, and add none, if
        one is not above all others."""
        if not self._is_above(first):
            return False
        self._data += data
        self._hashes += hash_leaves(data)
        return True

    def set_late(self, key: Key) -> bool:
        """Record that an event in time comes again, late: its first delivery is not logged.

        Return False if it was late before.
        """
        count = len(self._late)
        self._late.add(key)
        return len(self._late) > count

    def find(self, key: Key) -> bytes | None:
        """Return the leaf of an event; None if it is not in the leaves."""
        index = self._index_of(key)
        return None if index is None else self._data[index]

    def remove(self, key: Key) -> bool:
        """Remove an event. Return False if it is not in the leaves."""
        index = self._index_of(key)
        if index is None:
            return False
        del self._data[index], self._hashes[index]
        self._late.discard(key)
        return True

    def roots(self) -> BlockRoots:
        if self._roots is not None:
            return self._roots
        in_time = self.hashes_in_time
        root_in_time = root_of(in_time)
        root = root_of(self._hashes) if self._late else root_in_time
        return BlockRoots(len(in_time), root_in_time, len(self._data), root)

    def drop_leaves(self) -> None:
        """Keep the roots only."""
        self._roots = self.roots()
        self._data, self._hashes, self._late = [], [], set()

    def _is_above(self, key: Key) -> bool:
        """Return whether a key is above all others."""
        return not self._data or key > key_of(self._data[-1])

    def _index_of(self, key: Key) -> int | None:
        index = bisect_left(self._data, key, key=key_of)
        is_there = index < len(self._data) and key_of(self._data[index]) == key
        return index if is_there else None
