"""One block of the order at a site: its leaves, or only their roots."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

from broker.order_certificates.certificate import SignedCertificate
from broker.order_certificates.leaf import Key, Leaf, decode_leaf, encode_leaf
from broker.order_certificates.merkle import hash_leaf, root_of


class BlockRoots(NamedTuple):
    events_in_time: int
    root_in_time: bytes
    events: int
    root: bytes


class Entry(NamedTuple):
    """A leaf as bytes, with its hash."""

    data: bytes
    hash: bytes
    is_late: bool


class Block:
    """Leaves in the order of their keys. Without leaves the block accepts no event any more."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.is_partial = False
        """True if an event is not in the leaves."""
        self.signed: SignedCertificate | None = None
        self._keys: list[Key] = []
        self._entries: list[Entry] = []
        self._roots: BlockRoots | None = None
        """Of dropped leaves."""

    @property
    def has_leaves(self) -> bool:
        return self._roots is None

    @property
    def count(self) -> int:
        return len(self._entries) if self._roots is None else self._roots.events

    @property
    def entries(self) -> list[Entry]:
        return self._entries

    def add(self, leaf: Leaf, *, is_late: bool) -> bool:
        """Add an event. Return False if its message is there."""
        key, keys = leaf.key, self._keys
        data = encode_leaf(leaf)
        entry = Entry(data, hash_leaf(data), is_late)
        if not keys or key > keys[-1]:
            keys.append(key)
            self._entries.append(entry)
            return True
        index = bisect_left(keys, key)
        if keys[index] == key:
            return False
        keys.insert(index, key)
        self._entries.insert(index, entry)
        return True

    def set_late(self, key: Key, *, is_late: bool) -> bool:
        """Record that an event in time comes again, late: its first delivery is not logged.

        Return False if nothing has changed.
        """
        index = bisect_left(self._keys, key)
        entry = self._entries[index]
        if entry.is_late or not is_late:
            return False
        self._entries[index] = entry._replace(is_late=True)
        return True

    def remove(self, key: Key) -> bool:
        """Remove an event. Return False if it is not in the leaves."""
        index = bisect_left(self._keys, key)
        if self._keys[index : index + 1] != [key]:
            return False
        del self._keys[index], self._entries[index]
        return True

    def roots(self) -> BlockRoots:
        if self._roots is not None:
            return self._roots
        in_time = self.hashes_in_time()
        root_in_time = root_of(in_time)
        is_one = len(in_time) == len(self._entries)
        root = root_in_time if is_one else root_of(self.hashes())
        return BlockRoots(len(in_time), root_in_time, len(self._entries), root)

    def hashes(self) -> list[bytes]:
        return [each.hash for each in self._entries]

    def hashes_in_time(self) -> list[bytes]:
        return [each.hash for each in self._entries if not each.is_late]

    def leaves(self) -> Iterator[Leaf]:
        return (decode_leaf(each.data) for each in self._entries)

    def drop_leaves(self) -> None:
        """Keep the roots only."""
        self._roots = self.roots()
        self._keys, self._entries = [], []
