"""The pages of an LMDB file, read without LMDB, which crashes on a bad page.

LMDB 0.9 has two meta pages, then B-trees of branch, leaf and overflow pages. Page numbers, bounds,
the order of keys and the records of tables are checked. A bad page hides only the pages below it.
The file is not mapped, so a truncation is a problem like any other.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

import attrs

from broker.errors import LogCorrupt

FILE = "data.mdb"
_MAGIC, _VERSION = 0xBEEFC0DE, 1
_BRANCH, _LEAF, _OVERFLOW, _META = 0x01, 0x02, 0x04, 0x08
_BIG_DATA, _TABLE = 0x01, 0x02
#: Keys of free pages are numbers in native order.
FREE_FLAGS = 0x08
_PAGE = struct.Struct("<QHHHH")
_OVERFLOW_PAGE = struct.Struct("<QHHI")
_META_HEAD = struct.Struct("<II")
_RECORD = struct.Struct("<IHHQQQQQ")
_TAIL = struct.Struct("<QQ")
_NODE = struct.Struct("<HHHH")
_NUMBER = struct.Struct("<Q")
_META_BYTES = 152
_SMALLEST, _LARGEST = 512, 65_536
_NO_PAGE = 2**64 - 1
_MAX_DEPTH = 32
_MAX_PROBLEMS = 1_000


@attrs.frozen
class Tree:
    root: int = _NO_PAGE
    flags: int = 0
    depth: int = 0
    branch_pages: int = 0
    leaf_pages: int = 0
    overflow_pages: int = 0
    entries: int = 0
    pad: int = 0
    """For the table of free pages, the size of a page."""

    @classmethod
    def decode(cls, record: bytes, at: int = 0) -> Tree:
        pad, flags, depth, branches, leaves, overflow, entries, root = _RECORD.unpack_from(
            record, at
        )
        return cls(root, flags, depth, branches, leaves, overflow, entries, pad)


NO_TREE = Tree()


@attrs.frozen
class Meta:
    index: int
    page_size: int
    free: Tree
    main: Tree
    last_page: int
    transaction: int
    is_valid: bool
    """True if magic and version are right."""


class PageProblem(Exception):
    """A page that is invalid, or not at its place."""


class PageFile:
    def __init__(self, path: Path) -> None:
        """Raises `LogCorrupt` if no meta page can be read."""
        self.path = path
        self._file = open(path, "rb", buffering=0)
        self.size = os.fstat(self._file.fileno()).st_size
        self._problems: dict[str, None] = {}
        first = self._meta(0, 0)
        # Without a valid first page this machine's page size is likely.
        sizes = [first.page_size] if first and first.is_valid else [4096, 16_384, 65_536]
        seconds = (self._meta(1, size) for size in sizes)
        second = next((each for each in seconds if each is not None), None)
        self.metas = [each for each in (first, second) if each is not None]
        if not self.metas:
            self._file.close()
            raise LogCorrupt(
                f"{path.parent} does not hold an event log: {path.name} has {self.size} bytes and "
                "no meta page; restore the folder, or move it away"
            )
        self.page_size = next((m.page_size for m in self.metas if m.is_valid), 4096)
        self.seen: bytearray | None = None
        """By page number: true if the page belongs to the table read last."""
        self._page_counts = [0, 0, 0]
        self._depth = 0

    def close(self) -> None:
        self._file.close()

    @property
    def problems(self) -> list[str]:
        return list(self._problems)

    def clear_problems(self) -> None:
        self._problems.clear()

    @property
    def pages(self) -> int:
        return self.size // self.page_size

    def _read(self, at: int, size: int) -> bytes:
        found = os.pread(self._file.fileno(), size, at) if at < 1 << 62 else b""
        if len(found) < size:
            raise PageProblem("beyond the end of the file")
        return found

    def _meta(self, index: int, page_size: int) -> Meta | None:
        try:
            page = self._read(index * page_size, _META_BYTES)
        except PageProblem:
            return None
        _, _, flags, _, _ = _PAGE.unpack_from(page)
        magic, version = _META_HEAD.unpack_from(page, 16)
        (size,) = struct.unpack_from("<I", page, 40)
        last_page, transaction = _TAIL.unpack_from(page, 136)
        if not _SMALLEST <= size <= _LARGEST or size & (size - 1):
            return None
        sound = magic == _MAGIC and version == _VERSION and bool(flags & _META)
        free, main = Tree.decode(page, 40), Tree.decode(page, 88)
        return Meta(index, size, free, main, last_page, transaction, sound)

    @property
    def newest(self) -> Meta:
        """Meta page that LMDB would use."""
        return max(self.metas, key=lambda meta: (meta.is_valid, meta.transaction))

    def tables(self, meta: Meta) -> dict[bytes, Tree]:
        found: dict[bytes, Tree] = {}
        for key, value, flags in list(self.nodes(meta.main, "main")):
            if flags & _TABLE and len(value) == _RECORD.size:
                found[key] = Tree.decode(value)
        return found

    def items(self, name: bytes, tree: Tree) -> Iterator[tuple[bytes, bytes]]:
        """Yield entries as far as pages can be read."""
        for key, value, _ in self.nodes(tree, name.decode(errors="replace")):
            yield key, value

    def leaves(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the entries of all leaf pages, of any table and transaction."""
        known = dict(self._problems)
        self.seen = None
        for number in range(2, self.pages):
            try:
                page, flags, count = self._page(number)
            except PageProblem:
                continue
            if flags == _LEAF:
                for key, value, _ in self._leaf(number, page, count, "", values=True):
                    yield key, value
        self._problems = known

    def nodes(
        self, tree: Tree, table: str, flags: int = 0, *, values: bool = True
    ) -> Iterator[tuple[bytes, bytes, int]]:
        """Yield the entries of a table; values are empty without `values`."""
        self.seen = bytearray(self.pages)
        self._page_counts = [0, 0, 0]
        self._depth = 0
        if (tree.flags, tree.pad) != (flags, self.page_size if flags else 0):
            self.add_problem(table, "it is of another kind")
        order = "little" if flags == FREE_FLAGS else "big"
        entries, last = 0, b""
        if tree.root != _NO_PAGE:
            for key, value, node_flags in self._walk(tree.root, 1, table, order, values):
                if entries and not _is_before(last, key, order):
                    self.add_problem(table, "keys out of order")
                entries, last = entries + 1, key
                yield key, value, node_flags
        recorded = [
            tree.depth,
            tree.branch_pages,
            tree.leaf_pages,
            tree.overflow_pages,
            tree.entries,
        ]
        if recorded != [self._depth, *self._page_counts, entries]:
            self.add_problem(table, "it is not what its record says")

    def _walk(
        self, number: int, depth: int, table: str, order: str, values: bool
    ) -> Iterator[tuple[bytes, bytes, int]]:
        try:
            if depth > _MAX_DEPTH:
                raise PageProblem("a tree that is too deep")
            page, flags, count = self._page(number)
            self._depth = max(depth, self._depth)
            if self._node_bytes(page, flags, count) != self.page_size - _PAGE.unpack_from(page)[4]:
                self.add_problem(table, f"page {number}: nodes that overlap")
            if flags == _LEAF:
                self._page_counts[1] += 1
                yield from self._leaf(number, page, count, table, values)
                return
            self._page_counts[0] += 1
            children = [self._child(page, index) for index in range(count)]
        except (PageProblem, struct.error) as problem:
            self.add_problem(table, f"page {number}: {problem}")
            return
        for index, (separator, child) in enumerate(children):
            follows = children[index + 1][0] if index + 1 < len(children) else None
            for key, value, node_flags in self._walk(child, depth + 1, table, order, values):
                if (index and _is_before(key, separator, order)) or (
                    follows is not None and not _is_before(key, follows, order)
                ):
                    self.add_problem(table, f"page {number}: a key in the wrong branch")
                yield key, value, node_flags

    def _page(self, number: int) -> tuple[bytes, int, int]:
        """Return page, flags, and number of nodes."""
        page = self._read(number * self.page_size, self.page_size)
        self._mark_seen(number, 1)
        own, _, flags, lower, upper = _PAGE.unpack_from(page)
        if own != number or flags not in (_BRANCH, _LEAF):
            raise PageProblem("another page, or none")
        if not 16 < lower <= upper <= self.page_size:
            raise PageProblem("bounds that can not be")
        return page, flags, (lower - 16) // 2

    def _node_bytes(self, page: bytes, flags: int, count: int) -> int:
        """Nodes have no gaps between them."""
        room = 0
        for offset in struct.unpack_from(f"<{count}H", page, 16):
            low, high, node_flags, key_size = _NODE.unpack_from(page, offset)
            size = 8 + key_size
            if flags == _LEAF:
                size += _NUMBER.size if node_flags & _BIG_DATA else low | high << 16
            room += size + size % 2
        return room

    def _mark_seen(self, number: int, count: int) -> None:
        if self.seen is None:
            return
        if any(self.seen[number : number + count]):
            raise PageProblem("a page in two places")
        self.seen[number : number + count] = b"\x01" * count

    def _node(self, page: bytes, index: int) -> tuple[int, int, int, int, bytes]:
        (offset,) = struct.unpack_from("<H", page, 16 + 2 * index)
        if not 16 <= offset <= self.page_size - 8:
            raise PageProblem("a node outside of its page")
        low, high, flags, key_size = _NODE.unpack_from(page, offset)
        ends = offset + 8 + key_size
        if ends > self.page_size:
            raise PageProblem("a key outside of its page")
        return low, high, flags, ends, page[offset + 8 : ends]

    def _child(self, page: bytes, index: int) -> tuple[bytes, int]:
        low, high, flags, _, key = self._node(page, index)
        return key, low | high << 16 | flags << 32

    def _leaf(
        self, number: int, page: bytes, count: int, table: str, values: bool
    ) -> Iterator[tuple[bytes, bytes, int]]:
        for index in range(count):
            try:
                low, high, flags, data_at, key = self._node(page, index)
                size = low | high << 16
                if flags & ~(_TABLE if table == "main" else _BIG_DATA):
                    raise PageProblem("a node of another kind")
                if flags & _BIG_DATA:
                    value = self._overflow(page, data_at, size, values)
                elif data_at + size > self.page_size:
                    raise PageProblem("a value outside of its page")
                else:
                    value = page[data_at : data_at + size] if values else b""
                yield key, value, flags
            except (PageProblem, struct.error) as problem:
                self.add_problem(table, f"page {number}: {problem}")

    def _overflow(self, page: bytes, at: int, size: int, values: bool) -> bytes:
        (number,) = _NUMBER.unpack_from(page, at)
        begins = number * self.page_size
        head = self._read(begins, _OVERFLOW_PAGE.size)
        own, _, flags, count = _OVERFLOW_PAGE.unpack(head)
        if own != number or flags != _OVERFLOW or count != -(-(size + 16) // self.page_size):
            raise PageProblem("a value in pages of something else")
        if number + count > self.pages:
            raise PageProblem("a value beyond the end of the file")
        self._mark_seen(number, count)
        self._page_counts[2] += count
        return self._read(begins + 16, size) if values else b""

    def add_problem(self, table: str, text: str) -> None:
        if len(self._problems) < _MAX_PROBLEMS:
            self._problems[f"table {table}: {text}"] = None


def _is_before(one: bytes, other: bytes, order: str) -> bool:
    """Compare keys as bytes, or as numbers in native order."""
    return one < other if order == "big" else one[::-1] < other[::-1]
