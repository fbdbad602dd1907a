"""The archive, opened: what it has, and reading it."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from broker.archive.adoption import find_unlisted
from broker.archive.disk import Disk
from broker.archive.durables import Durables, StoredDurable
from broker.archive.layout import DURABLES, FORMAT, MANIFESTS, MARKER
from broker.archive.leases import ReadingLease
from broker.archive.listed import ArchivedFile, DtdText
from broker.archive.manifest import Manifest, SetAside
from broker.archive.manifests import Ledger, Manifests
from broker.archive.objects import Objects, objects_at
from broker.archive.state import ArchiveState
from broker.archive.table import SCHEMA
from broker.dtd.reference import DtdReference
from broker.errors import ArchiveCorrupt, ArchiveObjectMissing, ArchiveUnavailable
from broker.transport.clock import wall_clock_ms

#: Rows of a batch that `read` gives, unless it is told otherwise: some megabytes of events.
BATCH_ROWS: Final = 8192
#: How names of writers begin that come once: after a day of silence others speak for them.
GUEST: Final = "guest-"
#: A guest's name is used no longer than that (ms) after it was used last.
_GUEST_MS: Final = 3_600_000
#: What the marker holds.
_MARKED: Final = json.dumps({"format": FORMAT}).encode() + b"\n"


def guest_name() -> str:
    """A name for a writer that writes little and never comes back under it."""
    return f"{GUEST}{secrets.token_hex(8)}"


class Archive:
    """An archive that one thread uses. All methods block and may raise `ArchiveUnavailable`."""

    def __init__(self, objects: Objects, wall_clock: Callable[[], int] = wall_clock_ms) -> None:
        """Whether anything lies there is seen when it is used; `open` looks at once."""
        self.objects = objects
        self.wall_clock = wall_clock
        self.manifests = Manifests(objects)
        self._durables = Durables(objects)
        self._adopted: object = None
        """Of what is lost of manifests, what was known when files were adopted last."""
        self._own: Ledger | None = None
        self._own_used = 0

    @classmethod
    def open(
        cls,
        uri: str,
        create: bool = True,
        *,
        wall_clock: Callable[[], int] = wall_clock_ms,
        disk: Disk | None = None,
    ) -> Archive:
        """The archive at a path or URI (`file:///...`, `s3://...`); made if it is not there.

        `ConfigurationError` if that is no URI, `ArchiveUnavailable` if there is nothing and
        nothing is to be made, `ArchiveCorrupt` if something else lies there.
        """
        archive = cls(objects_at(uri, disk), wall_clock)
        if create:
            archive.make()
        else:
            archive.check()
        return archive

    @property
    def uri(self) -> str:
        """Of the folder under which everything lies, as Spark reads it too."""
        return self.objects.uri

    def is_there(self) -> bool:
        """Whether there is one; `ArchiveCorrupt` if something else lies there.

        A marker that was cut short is put again; one that is empty or deleted, where there are
        manifests or durable subscriptions.
        """
        try:
            data = self.objects.get(MARKER)
        except ArchiveObjectMissing:
            data = b""
            if not self._has_pages():
                return False
        if _MARKED.startswith(data) and data != _MARKED and (data or self._has_pages()):
            with suppress(ArchiveUnavailable):
                # Somebody who may only read needs no marker to go on.
                self.objects.put([(MARKER, _MARKED)])
            return True
        try:
            said = json.loads(data)
        except ValueError:
            raise ArchiveCorrupt(f"{self.uri} is no archive: {MARKER} is not JSON") from None
        if not isinstance(said, dict) or said.get("format") != FORMAT:
            raise ArchiveCorrupt(f"{self.uri} is no archive of the format {FORMAT}")
        return True

    def _has_pages(self) -> bool:
        return any(self.objects.below(folder) for folder in (MANIFESTS, DURABLES))

    def make(self) -> None:
        """Begin one, if it is not there."""
        if not self.is_there():
            self.objects.put([(MARKER, _MARKED)])

    def check(self) -> None:
        """Raises `ArchiveUnavailable` where there is none: a file system may not be mounted."""
        if not self.is_there():
            raise ArchiveUnavailable(f"there is no archive at {self.uri}")

    def location(self, file: ArchivedFile) -> str:
        """The URI of a file, for Spark."""
        return f"{self.uri}/{file.path}"

    def state(self) -> ArchiveState:
        """What the archive has now; the same object as before when nothing is new. What is not
        there (any more) is not empty: see `check`."""
        self.check()
        return self.manifests.state()

    def state_with_unlisted(self) -> ArchiveState:
        """The same, with the files that only damaged or missing manifests listed: they are listed
        again. For a reader that needs all that there is."""
        state = self.state()
        lost = _lost_manifests(state)
        if not any(lost) or lost == self._adopted:
            return state
        found = find_unlisted(self.objects, state)
        if found.manifest.adds:
            try:
                self._guest().enter(found.manifest)
            except ArchiveUnavailable:
                # It may be full. This reader knows of them all the same.
                return state.with_more(found.manifest)
            state = self.manifests.state()
        self._adopted = _lost_manifests(state)
        return state

    def durables(self) -> Mapping[tuple[str, str], StoredDurable]:
        """By client and name each durable subscription: (writer, stored bytes, at)."""
        return self._durables.all()

    def durables_of(self, writer: str) -> Mapping[tuple[str, str], bytes]:
        """Those that one writer has stored and not removed, whatever others say of them."""
        said = self._durables.by_writer().get(writer, {})
        return {key: stored for key, (stored, _) in said.items() if stored is not None}

    def damaged_durables(self) -> Mapping[str, str]:
        """Pages of durable subscriptions that can not be read, and why, by path."""
        return self._durables.problems()

    def reading(self) -> ReadingLease:
        """A lease: what `state` says after it began is there until it ends.

        Long readers call its `refresh` now and then.
        """
        self.check()
        return ReadingLease(self.objects, self.wall_clock)

    def read_dtd(self, reference: DtdReference) -> bytes:
        """The text of a DTD, checked. `ArchiveObjectMissing` if the archive has none."""
        text = self.state().dtds.get(reference)
        if text is None:
            raise ArchiveObjectMissing(f"the archive has no DTD of {reference}")
        return self.read_text(text)

    def read_text(self, text: DtdText) -> bytes:
        """One text of a DTD, checked. `ArchiveCorrupt` and `ArchiveObjectMissing`."""
        data = self.objects.get(text.path)
        if hashlib.sha256(data).hexdigest() != text.sha256:
            raise ArchiveCorrupt(f"{text.path} is not what its hash says")
        return data

    def open_file(self, file: ArchivedFile, *, checked: bool = False) -> pq.ParquetFile:
        """A file, to read row groups of. `checked` reads it whole first, and compares its hash.

        `ArchiveCorrupt` if it is damaged, `ArchiveObjectMissing` if it is not there.
        """
        source = pa.BufferReader(self._checked(file)) if checked else self.objects.open(file.path)
        try:
            opened = pq.ParquetFile(source)
        except (pa.ArrowException, OSError) as error:
            raise ArchiveCorrupt(f"{file.path} can not be read: {error}") from None
        if not opened.schema_arrow.equals(SCHEMA):
            raise ArchiveCorrupt(f"{file.path} has not the columns of an archive")
        return opened

    def read(
        self,
        file: ArchivedFile,
        columns: Sequence[str] | None = None,
        *,
        checked: bool = False,
        batch_rows: int = BATCH_ROWS,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a file in their order, all columns or these. Errors as of `open_file`."""
        with self.open_file(file, checked=checked) as opened:
            try:
                yield from opened.iter_batches(batch_rows, columns=columns, use_threads=False)
            except (pa.ArrowException, OSError) as error:
                raise ArchiveCorrupt(f"{file.path} can not be read: {error}") from None

    def set_aside(self, file: ArchivedFile, reason: str) -> None:
        """Nobody is to read this damaged file any more; its places count as lost.

        Its bytes stay until `expire` takes them.
        """
        self._guest().enter(Manifest(aside={file.path: SetAside(reason, self.wall_clock())}))

    def _guest(self) -> Ledger:
        now = self.wall_clock()
        # A guest that was silent for long may count as gone: then this is another one.
        if self._own is None or now - self._own_used > _GUEST_MS:
            self._own = Ledger(self.manifests, guest_name(), self.wall_clock)
        self._own_used = now
        return self._own

    def _checked(self, file: ArchivedFile) -> bytes:
        data = self.objects.get(file.path)
        if len(data) != file.bytes:
            raise ArchiveCorrupt(f"{file.path} has {len(data)} bytes instead of {file.bytes}")
        if hashlib.sha256(data).hexdigest() != file.sha256:
            raise ArchiveCorrupt(f"{file.path} is not what its hash says")
        return data


def _lost_manifests(state: ArchiveState) -> tuple[frozenset[str], Mapping[str, object]]:
    return frozenset(state.problems), state.lost_ends
