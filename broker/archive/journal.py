"""Journals: folders of numbered, immutable pages, one folder for each writer.

`<folder>/<writer>/<number, 12 digits>.json` is one line of JSON: `{"number": n, "snapshot": true if
it repeats all pages before it, "body": {...}, "sha256": "..."}`. The hash is that of `[number,
snapshot, body]` as JSON without spaces and with sorted keys.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import attrs

from broker.archive.object_store import ObjectStore
from broker.errors import ArchiveCorrupt, ArchiveObjectMissing

#: Of JSON that somebody else has written: `int` refuses infinity with OverflowError.
MALFORMED: Final = (LookupError, TypeError, ValueError, OverflowError, RecursionError)
_NAME: Final = re.compile(r"([^/]+)/([0-9]{12})\.json")
MISSING: Final = "is missing"


@attrs.frozen
class Page:
    number: int
    snapshot: bool
    body: Any
    """A JSON object; after reading, the result of the journal's `parse`."""

    def encode(self) -> bytes:
        content = {"number": self.number, "snapshot": self.snapshot, "body": self.body}
        return (_json({**content, "sha256": self._hash()}) + "\n").encode()

    @classmethod
    def decode(cls, data: bytes) -> Page:
        """Raises `ArchiveCorrupt`."""
        try:
            content = json.loads(data)
            page = cls(content["number"], content["snapshot"], content["body"])
            sound = page._hash() == content["sha256"]
        except MALFORMED as error:
            raise ArchiveCorrupt(f"is not a page of a journal: {error!r}") from None
        if not sound or not isinstance(page.body, dict):
            raise ArchiveCorrupt("does not match its hash")
        return page

    def _hash(self) -> str:
        text = _json([self.number, self.snapshot, self.body])
        return hashlib.sha256(text.encode()).hexdigest()


def page_path(folder: str, writer: str, number: int) -> str:
    return f"{folder}/{writer}/{number:012}.json"


@attrs.frozen
class WriterPages:
    """A writer's newest readable snapshot and all pages after it."""

    pages: tuple[Page, ...]
    newest: int
    """The highest number in use, readable or not; 0 if there is none."""
    problems: Mapping[str, str]
    """The reason for each damaged or missing page, by path."""


#: Bytes of a page, and ms since 1970.
_ObjectVersion: TypeAlias = tuple[int, int]


class Journal:
    """A page is read again only if its object changed."""

    def __init__(
        self, objects: ObjectStore, folder: str, parse: Callable[[dict[str, Any]], Any] = dict
    ) -> None:
        """`parse` converts a body, or raises `ArchiveCorrupt`."""
        self._objects = objects
        self._folder = folder
        self._parse = parse
        self._known: dict[str, WriterPages] = {}
        self._listed: dict[str, dict[int, _ObjectVersion]] = {}
        self._cache: dict[str, dict[int, tuple[_ObjectVersion, Page | str]]] = {}
        """By writer and number: the page, or the reason why it is unreadable."""
        self._expected: dict[str, int] = {}

    def expect_page(self, writer: str, number: int) -> None:
        self._expected[writer] = number

    def read(self) -> Mapping[str, WriterPages]:
        """Unchanged entries are the same objects. Raises `ArchiveUnavailable`."""
        listed = self._list_pages()
        # A snapshot may replace pages.
        for last_try in (False, True):
            try:
                found = {w: self._read_writer(w, each, last_try) for w, each in listed.items()}
                break
            except ArchiveObjectMissing:
                listed = self._list_pages()
        self._known, self._listed = found, listed
        self._cache = {writer: self._cache[writer] for writer in found}
        return found

    def is_damaged(self, writer: str) -> bool:
        """Return True if a page was unreadable at the last `read`."""
        return writer in self._known and bool(self._known[writer].problems)

    def writers(self) -> list[str]:
        return sorted(self._known)

    def list_page_numbers(self, writer: str) -> list[int]:
        return sorted(self._list_pages(writer).get(writer, ()))

    def _list_pages(self, writer: str = "") -> dict[str, dict[int, _ObjectVersion]]:
        listed: dict[str, dict[int, _ObjectVersion]] = defaultdict(dict)
        below = f"{self._folder}/{writer}" if writer else self._folder
        for each in self._objects.list_objects(below):
            named = _NAME.fullmatch(each.path[len(self._folder) + 1 :])
            if named is not None:
                listed[named[1]][int(named[2])] = (each.bytes, each.modified)
        return dict(listed)

    def _read_writer(
        self, writer: str, listed: dict[int, _ObjectVersion], last_try: bool
    ) -> WriterPages:
        known = self._known.get(writer)
        newest = max(known.newest if known else 0, self._expected.get(writer, 0), *listed)
        if known is not None and self._listed.get(writer) == listed and known.newest == newest:
            return known
        before, cache = self._cache.get(writer, {}), {}
        pages: list[Page] = []
        problems: dict[str, str] = {}
        for number in sorted(listed, reverse=True):
            cached = before.get(number)
            if cached is None or cached[0] != listed[number]:
                # A later process may have deleted, truncated or written it.
                cached = (listed[number], self._read_page(writer, number, last_try))
            cache[number] = cached
            _, page = cached
            if isinstance(page, str):
                problems[page_path(self._folder, writer, number)] = page
                continue
            pages.append(page)
            if page.snapshot:
                break
        pages.reverse()
        self._cache[writer] = cache
        # This process may have read pages that are gone.
        problems |= self._missing_pages(writer, pages, listed, newest)
        found = WriterPages(tuple(pages), newest, problems)
        return known if found == known and known is not None else found

    def _read_page(self, writer: str, number: int, last_try: bool) -> Page | str:
        try:
            page = Page.decode(self._objects.get(page_path(self._folder, writer, number)))
            if page.number != number:
                raise ArchiveCorrupt(f"is page {page.number}, not {number}")
            return attrs.evolve(page, body=self._parse(page.body))
        except ArchiveObjectMissing:
            if not last_try:
                raise
            return MISSING
        except ArchiveCorrupt as error:
            return error.text

    def _missing_pages(
        self, writer: str, pages: list[Page], listed: Iterable[int], newest: int
    ) -> dict[str, str]:
        present = set(listed)
        first = pages[0].number if pages and pages[0].snapshot else 1
        lost: Iterator[int] = (n for n in range(first, newest + 1) if n not in present)
        return {page_path(self._folder, writer, number): MISSING for number in lost}


def _json(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
