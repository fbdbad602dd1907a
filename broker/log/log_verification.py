"""Verification of a log's file without LMDB.

While a node runs, a read transaction preserves the pages of one commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from broker.errors import LogCorrupt
from broker.log.checksum import ValueDamaged, has_checksum, verify_value
from broker.log.chunk_places import PLACES_PREFIX, ChunkPlaces, decode_places
from broker.log.damage import Damage, DamageKind, Span
from broker.log.page_check import check_pages, check_transaction
from broker.log.page_file import FILE, NO_TREE, Meta, PageFile, Tree
from broker.log.replica_table import REPLICA_TABLE
from broker.log.stored_chunk import HeadDamaged, StoredChunk, span_of
from broker.log.tables import FORMAT, format_number
from broker.signatures.event_check import SignatureCounts, find_forged

#: Called with the verified and the total bytes.
Progress = Callable[[int, int], None]
#: A table's letter among the copies, and the prefixes of checked keys.
_VALUES: Mapping[bytes, tuple[bytes, tuple[bytes, ...]]] = {
    b"origins": (b"o", (b"c", b"s")),
    b"marks": (b"d", (b"",)),
    b"durables": (b"s", (b"",)),
    b"clients": (b"c", (b"",)),
    b"histories": (b"h", (b"",)),
    b"moved": (b"v", (b"",)),
    b"meta": (b"m", (b"clean", b"epoch", b"last", b"made", b"origin")),
}
_UNCHECKED_ALLOWED = (b"marks", b"histories")


@attrs.frozen
class Finding:
    kind: str
    """`page`, `event`, `head`, `missing`, `places`, `value` (no copy is intact), `copy` (one is
    intact) or `signature` (the origin has not signed the event)."""
    table: str
    text: str
    origin: str = ""
    first: str = ""
    """The first lost place, as `epoch:offset`."""
    last: str = ""
    serials: tuple[int, int] = (0, 0)


@attrs.define
class VerificationResult:
    """Counts of verified items, and the damage found."""

    format: int = 0
    chunks: int = 0
    events: int = 0
    unchecked: int = 0
    """Chunks of format 3, without checksums."""
    values: int = 0
    bytes: int = 0
    signatures: SignatureCounts = attrs.field(factory=SignatureCounts)
    findings: list[Finding] = attrs.field(factory=list)


class Verification:
    """One run over a log's file."""

    def __init__(self, folder: Path) -> None:
        """Raises `LogCorrupt` if there is no log."""
        if not (folder / FILE).exists():
            raise LogCorrupt(f"{folder} holds no event log")
        self.file = PageFile(folder / FILE)
        self.result = VerificationResult(bytes=self.file.size)
        self._progress: Progress = lambda done, of: None
        self._read = 0

    def close(self) -> None:
        self.file.close()

    def rank_metas(self) -> list[Meta]:
        """Return the meta pages of a file without a writer: the one to read first. Adds findings
        for damage in them."""
        ranks: dict[int, tuple[bool, int]] = {}
        for meta in self.file.metas:
            transaction = check_transaction(self.file, meta)
            for problem in self.file.problems:
                self._add_finding("page", "meta", problem)
            has_tables = b"events" in self.file.tables(meta)
            self.file.clear_problems()
            ranks[meta.index] = (has_tables, transaction)
        best, *others = sorted(self.file.metas, key=lambda meta: ranks[meta.index], reverse=True)
        if best is not self.file.newest:
            self._add_finding("page", "meta", f"meta page {self.file.newest.index} is damaged")
        return [best, *others]

    def verify(self, meta: Meta, progress: Progress) -> VerificationResult:
        self._progress = progress
        done = self.result
        for each in self.file.metas:
            if not each.is_valid:
                self._add_finding("page", "meta", f"meta page {each.index} is damaged")
        if len(self.file.metas) < 2:
            self._add_finding("page", "meta", "a meta page is damaged")
        check_pages(self.file, meta)
        roots = self.file.tables(meta)
        table = {name: self._items(name, roots) for name in (b"copies", b"meta")}
        copies, stored = (dict(table[name]) for name in (b"copies", b"meta"))
        done.format = format_number(stored.get(b"format", b"")) or 0
        if done.format == FORMAT:
            for name in _VALUES:
                items = stored.items() if name == b"meta" else self._items(name, roots)
                self._verify_values(name, dict(items), copies)
        places = self._verify_places(roots)
        self._verify_chunks(roots, places)
        self._verify_replicas(roots, copies)
        done.findings += [Finding("page", "", problem) for problem in self.file.problems]
        return done

    def _items(self, name: bytes, roots: Mapping[bytes, Tree]) -> Iterator[tuple[bytes, bytes]]:
        for key, value in self.file.items(name, roots.get(name, NO_TREE)):
            self._read += len(value)
            self._progress(min(self._read, self.file.size), self.file.size)
            yield key, value

    def _add_finding(self, kind: str, table: str, text: str, **fields: Any) -> None:
        self.result.findings.append(Finding(kind, table, text, **fields))

    def _add_damage(self, damage: Damage) -> None:
        for span in damage.spans or (Span("", (0, 0), (0, 0)),):
            epoch, offset = span.after
            self._add_finding(
                damage.kind.value,
                damage.table,
                str(damage),
                origin=span.origin,
                first=f"{epoch}:{offset + 1}",
                last="{}:{}".format(*span.upto),
                serials=(damage.first, damage.last),
            )

    def _verify_values(
        self, name: bytes, values: Mapping[bytes, bytes], copies: Mapping[bytes, bytes]
    ) -> None:
        letter, prefixes = _VALUES[name]
        keys = {key for key in values if key.startswith(prefixes)}
        keys |= {key[1:] for key in copies if key[:1] == letter and key[1:].startswith(prefixes)}
        for key in sorted(keys):
            self.result.values += 1
            stored, copy = values.get(key), copies.get(letter + key)
            if (
                name in (b"marks", b"histories")
                and copy is None
                and stored
                and not has_checksum(stored)
            ):
                continue
            sound = [_is_sound(letter + key, each) for each in (stored, copy)]
            if all(sound) and stored == copy:
                continue
            kind = "copy" if any(sound) else "value"
            what = "and its copy differ" if all(sound) else "is damaged"
            self._add_finding(kind, name.decode(), f"the value of {key!r} {what}")

    def _verify_places(self, roots: Mapping[bytes, Tree]) -> dict[int, ChunkPlaces]:
        found: dict[int, ChunkPlaces] = {}
        for key, value in self._items(b"origins", roots):
            if key.startswith(PLACES_PREFIX):
                try:
                    places = decode_places(key, value)
                    found[places.serial] = places
                except ValueDamaged:
                    self._add_finding("places", "origins", f"the entry {key!r} is damaged")
        return found

    def _verify_chunks(self, roots: Mapping[bytes, Tree], places: dict[int, ChunkPlaces]) -> None:
        follows = None
        for key, value in self._items(b"events", roots):
            first = int.from_bytes(key, "big")
            if follows is not None and first > follows:
                self._add_lost_chunk(
                    DamageKind.MISSING, follows, first - 1, places.pop(follows, None)
                )
            known = places.pop(first, None)
            self.result.chunks += 1
            try:
                chunk = StoredChunk("events", key, first, value)
            except HeadDamaged:
                last = first + (known.count if known and known.count else 1) - 1
                self._add_lost_chunk(DamageKind.HEAD, first, last, known)
                follows = last + 1 if known and known.count else None
                continue
            self._verify_chunk(chunk)
            if known is None:
                self._add_finding("places", "origins", f"the chunk at serial {first} has no entry")
            follows = chunk.last + 1
        for serial, known in places.items():
            self._add_lost_chunk(
                DamageKind.MISSING, serial, serial + max(known.count, 1) - 1, known
            )

    def _verify_chunk(self, chunk: StoredChunk) -> None:
        self.result.events += chunk.last - chunk.first + 1
        self.result.unchecked += not chunk.has_checksums
        damages = list(chunk.damages())
        for damage in damages:
            self._add_damage(damage)
        if not damages:
            self._verify_signatures(chunk)

    def _verify_signatures(self, chunk: StoredChunk) -> None:
        counts, events = self.result.signatures, chunk.events_from(chunk.first)
        # Own events may have no proof yet, and links of earlier versions bring none.
        for event, error in find_forged(
            chunk.origin, events, must_sign=False, may_be_unsigned=True, counts=counts
        ):
            place = f"{event.epoch}:{event.offset}"
            self._add_finding(
                *("signature", chunk.table, f"{error} ({place})"),
                origin=chunk.origin,
                first=place,
                last=place,
                serials=(event.serial, event.serial),
            )

    def _add_lost_chunk(
        self, kind: DamageKind, first: int, last: int, places: ChunkPlaces | None
    ) -> None:
        spans = () if places is None else (span_of(places.origin, places.marks),)
        self._add_damage(Damage("events", b"", first, last, kind, spans))

    def _verify_replicas(self, roots: Mapping[bytes, Tree], copies: Mapping[bytes, bytes]) -> None:
        for key, value in self._items(b"kept", roots):
            if key.endswith(b"\0") and key.count(b"\0") == 1:
                self.result.values += 1
                sound = [_is_sound(b"k" + key, each) for each in (value, copies.get(b"k" + key))]
                if self.result.format == FORMAT and not all(sound):
                    kind = "copy" if any(sound) else "value"
                    self._add_finding(kind, REPLICA_TABLE, f"the span of {key[:-1]!r} is damaged")
                continue
            self.result.chunks += 1
            try:
                self._verify_chunk(StoredChunk(REPLICA_TABLE, key, 0, value))
            except HeadDamaged:
                self._add_finding("head", REPLICA_TABLE, f"the chunk {key!r} is damaged")


def _is_sound(key: bytes, stored: bytes | None) -> bool:
    try:
        verify_value(key, stored or b"")
    except ValueDamaged:
        return False
    return True
