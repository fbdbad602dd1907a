"""A folder of numbered objects of one writer: said once, never changed, repeated by snapshots.

`<folder>/<writer>/<number, 12 digits>.json` holds one line of JSON:
`{"number": n, "snapshot": whether it repeats all before it, "body": {...}, "sha256": "..."}`, where
the hash is that of `[number, snapshot, body]` as JSON without spaces and with sorted keys.
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

_NAME: Final = re.compile(r"([^/]+)/([0-9]{12})\.json")
#: What is wrong with a page that is not there.
MISSING: Final = "is missing"


@attrs.frozen
class Page:
    """One object of a journal."""

    number: int
    snapshot: bool
    body: Any
    """A dictionary of JSON; when a journal was read, what its reader makes of that."""

    def encode(self) -> bytes:
        """Its bytes."""
        content = {"number": self.number, "snapshot": self.snapshot, "body": self.body}
        return (_json({**content, "sha256": self._hash()}) + "\n").encode()

    @classmethod
    def decode(cls, data: bytes) -> Page:
        """What `encode_node_message` wrote; `ArchiveCorrupt` if it is not that."""
        try:
            content = json.loads(data)
            page = cls(content["number"], content["snapshot"], content["body"])
            sound = page._hash() == content["sha256"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ArchiveCorrupt(f"is no page of a journal: {error!r}") from None
        if not sound or not isinstance(page.body, dict):
            raise ArchiveCorrupt("is not what its hash says")
        return page

    def _hash(self) -> str:
        text = _json([self.number, self.snapshot, self.body])
        return hashlib.sha256(text.encode()).hexdigest()


def page_path(folder: str, writer: str, number: int) -> str:
    """Where a page lies."""
    return f"{folder}/{writer}/{number:012}.json"


@attrs.frozen
class WriterPages:
    """The pages of a writer that matter: the newest snapshot that can be read, and all after it."""

    pages: tuple[Page, ...]
    newest: int
    """The highest number that was used, whether or not that page can be read; 0 if none was."""
    problems: Mapping[str, str]
    """What is wrong, by path: a page is damaged, or missing."""


#: What a listing shows of a page: its bytes, and when it was put, in ms.
_ObjectVersion: TypeAlias = tuple[int, int]


class Journal:
    """The journals of all writers in a folder. A page is read again only if its object changed."""

    def __init__(
        self, objects: ObjectStore, folder: str, parse: Callable[[dict[str, Any]], Any] = dict
    ) -> None:
        """`parse` makes of a page's body what is wanted; `ArchiveCorrupt` if that is not in it."""
        self._objects = objects
        self._folder = folder
        self._parse = parse
        self._known: dict[str, WriterPages] = {}
        self._listed: dict[str, dict[int, _ObjectVersion]] = {}
        self._cache: dict[str, dict[int, tuple[_ObjectVersion, Page | str]]] = {}
        """By writer and number what was read: a page, or what is wrong with it."""
        self._expected: dict[str, int] = {}

    def expect_page(self, writer: str, number: int) -> None:
        """This process has put the writer's page of this number: without it the rest is damaged."""
        self._expected[writer] = number

    def read(self) -> Mapping[str, WriterPages]:
        """By writer what there is now. An entry that is the same object as before is unchanged.

        Raises `ArchiveUnavailable`.
        """
        listed = self._list_pages()
        # A snapshot may take the place of pages while they are read: then they are listed anew.
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
        """Whether a page of the writer could not be read when `decode_interest` was called last."""
        return writer in self._known and bool(self._known[writer].problems)

    def writers(self) -> list[str]:
        """Whose pages there were when `decode_interest` was called last."""
        return sorted(self._known)

    def list_page_numbers(self, writer: str) -> list[int]:
        """The numbers of all pages of a writer that lie there, rising."""
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
                # An object may have been deleted or cut since, or put again by a later process.
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
        # This process may have seen pages behind the newest one that is there now.
        problems |= self._missing_pages(writer, pages, listed, newest)
        found = WriterPages(tuple(pages), newest, problems)
        return known if found == known and known is not None else found

    def _read_page(self, writer: str, number: int, last_try: bool) -> Page | str:
        """Read a page, or say what is wrong with it."""
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
        """Numbers that were passed over since the snapshot, or since the beginning."""
        present = set(listed)
        first = pages[0].number if pages and pages[0].snapshot else 1
        lost: Iterator[int] = (n for n in range(first, newest + 1) if n not in present)
        return {page_path(self._folder, writer, number): MISSING for number in lost}


def _json(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
