"""The pages of an LMDB file, read without LMDB, which trusts every page and crashes on a bad one.

It reads the format of LMDB 0.9: two meta pages, then B-trees of branch, leaf and overflow pages.
Everything is checked: page numbers, bounds, the order of keys. A bad page hides what lies below it
and no more.
"""

from __future__ import annotations

import mmap
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
_PAGE = struct.Struct("<QHHHH")
_META_HEAD = struct.Struct("<II")
_DATABASE = struct.Struct("<IHHQQQQQ")
_TAIL = struct.Struct("<QQ")
_NODE = struct.Struct("<HHHH")
_SMALLEST, _LARGEST = 512, 65_536
_NO_PAGE = 2**64 - 1
_DEEPEST = 32


@attrs.frozen
class Meta:
    """A meta page."""

    index: int
    page_size: int
    free_root: int
    main_root: int
    last_page: int
    transaction: int
    is_sound: bool
    """Whether magic and version are right."""


class PageProblem(Exception):
    """A page that is none, or not where it should be."""


class PageFile:
    """A file of pages, as long as it is. `problems` are what reading it met."""

    def __init__(self, path: Path) -> None:
        """Raises `LogCorrupt` where no meta page can be read."""
        self.path = path
        with open(path, "rb") as file:
            self.size = os.fstat(file.fileno()).st_size
            if self.size < 2 * _SMALLEST:
                raise LogCorrupt(_cut(path, self.size, 2 * 4096))
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.problems: list[str] = []
        self._seen: set[int] = set()
        first = self._meta(0, 0)
        # Where the first page does not tell the size of pages, that of this machine is likely.
        sizes = [first.page_size] if first and first.is_sound else [4096, 16_384, 65_536]
        seconds = (self._meta(1, size) for size in sizes)
        second = next((each for each in seconds if each is not None), None)
        self.metas = [each for each in (first, second) if each is not None]
        if not self.metas:
            raise LogCorrupt(
                f"{path.parent} does not hold an event log: {path.name} has no meta page; restore "
                "the folder, or move it away"
            )
        self.page_size = next((m.page_size for m in self.metas if m.is_sound), 4096)

    def close(self) -> None:
        """Let go of the file."""
        self._data.close()

    def _meta(self, index: int, page_size: int) -> Meta | None:
        at = index * page_size
        if at + 152 > self.size:
            return None
        _, _, flags, _, _ = _PAGE.unpack_from(self._data, at)
        magic, version = _META_HEAD.unpack_from(self._data, at + 16)
        size, _, _, _, _, _, _, free_root = _DATABASE.unpack_from(self._data, at + 40)
        *_, main_root = _DATABASE.unpack_from(self._data, at + 88)
        last_page, transaction = _TAIL.unpack_from(self._data, at + 136)
        if not _SMALLEST <= size <= _LARGEST or size & (size - 1):
            return None
        sound = magic == _MAGIC and version == _VERSION and bool(flags & _META)
        return Meta(index, size, free_root, main_root, last_page, transaction, sound)

    @property
    def newest(self) -> Meta:
        """The meta page that LMDB would use."""
        return max(self.metas, key=lambda meta: (meta.is_sound, meta.transaction))

    # ------------------------------------------------------------------ trees

    def tables(self, meta: Meta) -> dict[bytes, int]:
        """The roots of all named tables."""
        found: dict[bytes, int] = {}
        for key, value, flags in list(self._nodes(meta.main_root, "main")):
            if flags & _TABLE and len(value) == _DATABASE.size:
                found[key] = _DATABASE.unpack(value)[7]
        return found

    def items(self, name: bytes, root: int) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values of a table, as far as its pages can be read."""
        for key, value, _ in self._nodes(root, name.decode(errors="replace")):
            yield key, value

    def walk(self, meta: Meta) -> int:
        """Read all tables of a meta page; the number of entries. See `problems`."""
        count = 0
        for name, root in self.tables(meta).items():
            for _ in self.items(name, root):
                count += 1
        return count

    def _nodes(self, root: int, table: str) -> Iterator[tuple[bytes, bytes, int]]:
        if root == _NO_PAGE:
            return
        self._seen = set()
        last = None
        for key, value, flags in self._below(root, 0, table):
            if last is not None and key <= last:
                self._problem(table, "keys out of order")
            last = key
            yield key, value, flags

    def _below(self, number: int, depth: int, table: str) -> Iterator[tuple[bytes, bytes, int]]:
        try:
            at, flags, count = self._page(number)
            if depth > _DEEPEST:
                raise PageProblem("a tree that is too deep")
            if flags & _LEAF:
                yield from self._leaf(at, count, table)
                return
            children = [self._child(at, index) for index in range(count)]
        except (PageProblem, struct.error) as problem:
            self._problem(table, f"page {number}: {problem}")
            return
        for index, (separator, child) in enumerate(children):
            follows = children[index + 1][0] if index + 1 < len(children) else None
            for key, value, node_flags in self._below(child, depth + 1, table):
                if (index and key < separator) or (follows is not None and key >= follows):
                    self._problem(table, f"page {number}: a key in the wrong branch")
                yield key, value, node_flags

    def _page(self, number: int) -> tuple[int, int, int]:
        """Where a branch or leaf begins, its flags, and the number of its nodes."""
        at = number * self.page_size
        if at + self.page_size > self.size:
            raise PageProblem("beyond the end of the file")
        if number in self._seen:
            raise PageProblem("a page in two places")
        self._seen.add(number)
        own, _, flags, lower, upper = _PAGE.unpack_from(self._data, at)
        if own != number or flags & 0xF not in (_BRANCH, _LEAF):
            raise PageProblem("another page, or none")
        if not 16 <= lower <= upper <= self.page_size:
            raise PageProblem("bounds that can not be")
        return at, flags, (lower - 16) // 2

    def _node(self, at: int, index: int) -> tuple[int, int, int, int, bytes]:
        (offset,) = struct.unpack_from("<H", self._data, at + 16 + 2 * index)
        if not 16 <= offset <= self.page_size - 8:
            raise PageProblem("a node outside of its page")
        low, high, flags, key_size = _NODE.unpack_from(self._data, at + offset)
        if offset + 8 + key_size > self.page_size:
            raise PageProblem("a key outside of its page")
        begins = at + offset + 8
        return low, high, flags, offset + 8 + key_size, self._data[begins : begins + key_size]

    def _child(self, at: int, index: int) -> tuple[bytes, int]:
        low, high, flags, _, key = self._node(at, index)
        return key, low | high << 16 | flags << 32

    def _leaf(self, at: int, count: int, table: str) -> Iterator[tuple[bytes, bytes, int]]:
        for index in range(count):
            try:
                low, high, flags, data_at, key = self._node(at, index)
                size = low | high << 16
                if flags & _BIG_DATA:
                    value = self._overflow(at + data_at, size)
                elif data_at + size > self.page_size:
                    raise PageProblem("a value outside of its page")
                else:
                    value = self._data[at + data_at : at + data_at + size]
                yield key, value, flags
            except (PageProblem, struct.error) as problem:
                self._problem(table, f"page {at // self.page_size}: {problem}")

    def _overflow(self, at: int, size: int) -> bytes:
        (number,) = struct.unpack_from("<Q", self._data, at)
        begins = number * self.page_size
        if begins + 16 + size > self.size:
            raise PageProblem("a value beyond the end of the file")
        own, _, flags, pages = struct.unpack_from("<QHHI", self._data, begins)
        if own != number or flags & 0xF != _OVERFLOW or pages * self.page_size < size + 16:
            raise PageProblem("a value in pages of something else")
        return self._data[begins + 16 : begins + 16 + size]

    def _problem(self, table: str, text: str) -> None:
        if len(self.problems) < 1_000:
            self.problems.append(f"table {table}: {text}")


def check_file(folder: Path, *, thoroughly: bool = False) -> None:
    """Raise `LogCorrupt`, with advice, where LMDB could not open a log's file or would crash: both
    meta pages and the length of the file are looked at; `thoroughly`, or where that is short, all
    pages."""
    path = folder / FILE
    if not path.exists() or path.stat().st_size == 0:
        return
    file = PageFile(path)
    try:
        if len(file.metas) < 2 or not all(meta.is_sound for meta in file.metas):
            raise LogCorrupt(f"a meta page of {path} is damaged; {ADVICE}")
        newest = file.newest
        wanted = (newest.last_page + 1) * file.page_size
        if file.size < wanted:
            # Pages at the end may never have been written, for they were free again at once.
            file.walk(newest)
            if file.problems:
                raise LogCorrupt(_cut(path, file.size, wanted))
        elif thoroughly:
            file.walk(newest)
            if file.problems:
                raise LogCorrupt(f"{path} has damaged pages: {file.problems[0]}; {ADVICE}")
    finally:
        file.close()


ADVICE = (
    "stop the node, keep a copy of the folder, and run `xmlbroker log verify --repair`: what can "
    "be read is saved, and the node asks others for the rest"
)


def _cut(path: Path, size: int, wanted: int) -> str:
    return f"{path} was cut short: it has {size} bytes, its header says {wanted}; {ADVICE}"
