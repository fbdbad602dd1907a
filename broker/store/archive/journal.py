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
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import attrs

from broker.errors import ArchiveCorrupt, ArchiveObjectMissing
from broker.store.archive.objects import Objects

_NAME: Final = re.compile(r"([^/]+)/([0-9]{12})\.json")


@attrs.frozen
class Page:
    """One object of a journal."""

    number: int
    snapshot: bool
    body: Any
    """A dictionary of JSON; when a journal was read, what its reader makes of that."""

    def encode(self) -> bytes:
        """Its bytes."""
        said = {"number": self.number, "snapshot": self.snapshot, "body": self.body}
        return (_json({**said, "sha256": self._hash()}) + "\n").encode()

    @classmethod
    def decode(cls, data: bytes) -> Page:
        """What `encode` wrote; `ArchiveCorrupt` if it is not that."""
        try:
            said = json.loads(data)
            page = cls(said["number"], said["snapshot"], said["body"])
            sound = page._hash() == said["sha256"]
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
class Pages:
    """The pages of a writer that matter: the newest snapshot that can be read, and all after it."""

    pages: tuple[Page, ...]
    newest: int
    """The highest number that was used, whether or not that page can be read; 0 if none was."""
    problems: Mapping[str, str]
    """What is wrong, by path: a page is damaged, or missing."""


class Journal:
    """Reads the journals of all writers in a folder, and only once what it has read."""

    def __init__(
        self, objects: Objects, folder: str, parse: Callable[[dict[str, Any]], Any] = dict
    ) -> None:
        """`parse` makes of a page's body what is wanted; `ArchiveCorrupt` if that is not in it."""
        self._objects = objects
        self._folder = folder
        self._parse = parse
        self._known: dict[str, Pages] = {}

    def read(self) -> Mapping[str, Pages]:
        """By writer what there is now. An entry that is the same object as before is unchanged.

        Raises `ArchiveUnavailable`.
        """
        numbers = self._numbers()
        # A snapshot may take the place of pages while they are read: then they are listed anew.
        for last_try in (False, True):
            try:
                found = {w: self._writer(w, each, last_try) for w, each in numbers.items()}
                break
            except ArchiveObjectMissing:
                numbers = self._numbers()
        self._known = found
        return found

    def damaged(self, writer: str) -> bool:
        """Whether a page of the writer could not be read when `read` was called last."""
        return writer in self._known and bool(self._known[writer].problems)

    def writers(self) -> list[str]:
        """Whose pages there were when `read` was called last."""
        return sorted(self._known)

    def numbers(self, writer: str) -> list[int]:
        """The numbers of all pages of a writer that lie there, rising."""
        return sorted(self._numbers(writer).get(writer, ()))

    def _numbers(self, writer: str = "") -> dict[str, list[int]]:
        numbers: dict[str, list[int]] = defaultdict(list)
        below = f"{self._folder}/{writer}" if writer else self._folder
        for each in self._objects.below(below):
            named = _NAME.fullmatch(each.path[len(self._folder) + 1 :])
            if named is not None:
                numbers[named[1]].append(int(named[2]))
        return dict(numbers)

    def _writer(self, writer: str, numbers: list[int], last_try: bool) -> Pages:
        known = self._known.get(writer)
        newest = max(numbers)
        if known is not None and known.newest == newest:
            return known
        fresh = sorted(number for number in numbers if known is None or number > known.newest)
        if known is not None and not known.problems and fresh[0] == known.newest + 1:
            pages = [*known.pages]
        else:
            pages, fresh = [], sorted(numbers)
        problems: dict[str, str] = {}
        read: list[Page] = []
        for number in reversed(fresh):
            page = self._page(writer, number, problems, last_try)
            if page is not None:
                read.append(page)
                if page.snapshot:
                    pages = []
                    break
        pages += reversed(read)
        problems |= self._missing(writer, pages, fresh)
        return Pages(tuple(pages), newest, problems)

    def _page(
        self, writer: str, number: int, problems: dict[str, str], last_try: bool
    ) -> Page | None:
        path = page_path(self._folder, writer, number)
        try:
            page = Page.decode(self._objects.get(path))
            if page.number != number:
                raise ArchiveCorrupt(f"is page {page.number}, not {number}")
            return attrs.evolve(page, body=self._parse(page.body))
        except ArchiveObjectMissing:
            if not last_try:
                raise
            problems[path] = "is missing"
        except ArchiveCorrupt as error:
            problems[path] = error.text
        return None

    def _missing(self, writer: str, pages: list[Page], fresh: list[int]) -> dict[str, str]:
        """Numbers that were passed over since the snapshot, or since the beginning."""
        have = {page.number for page in pages} | set(fresh)
        first = pages[0].number if pages and pages[0].snapshot else 1
        lost: Iterator[int] = (n for n in range(first, max(have, default=0)) if n not in have)
        return {page_path(self._folder, writer, number): "is missing" for number in lost}


def _json(said: Any) -> str:
    return json.dumps(said, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
