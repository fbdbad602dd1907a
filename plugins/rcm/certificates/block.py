"""One block of the order at a site: its leaves, or only their roots."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from broker.order_certificates.certificate import SignedCertificate
from broker.order_certificates.leaf import Key, Leaf, decode_leaf
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
        self._keys: list[Key] = []
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
        pairs = zip(self._keys, self._hashes, strict=True)
        return [each for key, each in pairs if key not in self._late]

    def is_late(self, index: int) -> bool:
        return self._keys[index] in self._late

    def leaves(self) -> Iterator[Leaf]:
        return map(decode_leaf, self._data)

    def add(self, key: Key, data: bytes, *, is_late: bool) -> bool:
        """Add a leaf as bytes. Return False if its message is there."""
        keys = self._keys
        index = len(keys)
        if keys and key <= keys[-1]:
            index = bisect_left(keys, key)
            if keys[index] == key:
                return False
        keys.insert(index, key)
        self._data.insert(index, data)
        self._hashes.insert(index, hash_leaf(data))
        if is_late:
            self._late.add(key)
        return True

    def extend(self, keys: Sequence[Key], data: Sequence[bytes]) -> bool:
        """Add leaves in time, whose keys rise. Return False, and add none, if one is not above all
        others."""
        if self._keys and keys[0] <= self._keys[-1]:
            return False
        self._keys += keys
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
        index = bisect_left(self._keys, key)
        return self._data[index] if self._keys[index : index + 1] == [key] else None

    def remove(self, key: Key) -> bool:
        """Remove an event. Return False if it is not in the leaves."""
        index = bisect_left(self._keys, key)
        if self._keys[index : index + 1] != [key]:
            return False
        del self._keys[index], self._data[index], self._hashes[index]
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
        self._keys, self._data, self._hashes, self._late = [], [], [], set()
