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

from broker.archive.archive_state import ArchiveState
from broker.archive.disk import Disk
from broker.archive.durable_journal import DurableJournal, StoredDurable
from broker.archive.layout import DURABLES, FORMAT, MANIFESTS, MARKER
from broker.archive.manifest import Manifest, SetAside
from broker.archive.manifest_entry import ArchivedFile, DtdText
from broker.archive.manifest_journal import ManifestJournal, ManifestWriter
from broker.archive.object_store import ObjectStore, open_object_store
from broker.archive.reader_lease import ReaderLease
from broker.archive.table import SCHEMA
from broker.archive.unlisted_files import find_unlisted_files
from broker.dtd.reference import DtdReference
from broker.errors import ArchiveCorrupt, ArchiveObjectMissing, ArchiveUnavailable
from broker.transport.clock import wall_clock_ms

#: Rows of a batch that `decode_interest` gives, unless it is told otherwise: some megabytes of events.
BATCH_ROWS: Final = 8192
#: How names of writers begin that come once: after a day of silence others speak for them.
TEMPORARY_WRITER_PREFIX: Final = "guest-"
#: A guest's name is used no longer than that (ms) after it was used last.
_TEMPORARY_NAME_MS: Final = 3_600_000
#: What the marker holds.
_MARKER_CONTENT: Final = json.dumps({"format": FORMAT}).encode() + b"\n"


def new_temporary_writer_name() -> str:
    """A name for a writer that writes little and never comes back under it."""
    return f"{TEMPORARY_WRITER_PREFIX}{secrets.token_hex(8)}"


class Archive:
    """An archive that one thread uses. All methods block and may raise `ArchiveUnavailable`."""

    def __init__(self, objects: ObjectStore, wall_clock: Callable[[], int] = wall_clock_ms) -> None:
        """Whether anything lies there is seen when it is used; `open` looks at once."""
        self.objects = objects
        self.wall_clock = wall_clock
        self.manifests = ManifestJournal(objects)
        self._durables = DurableJournal(objects)
        self._lost_when_relisted: object = None
        """Of what is lost of manifests, what was known when files were adopted last."""
        self._own_writer: ManifestWriter | None = None
        self._own_writer_used_at = 0

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
        archive = cls(open_object_store(uri, disk), wall_clock)
        if create:
            archive.create_if_missing()
        else:
            archive.check_exists()
        return archive

    @property
    def uri(self) -> str:
        """Of the folder under which everything lies, as Spark reads it too."""
        return self.objects.uri

    def exists(self) -> bool:
        """Whether there is one; `ArchiveCorrupt` if something else lies there.

        A marker that was cut short is put again; one that is empty or deleted, where there are
        manifests or durable subscriptions.
        """
        try:
            data = self.objects.get(MARKER)
        except ArchiveObjectMissing:
            data = b""
            if not self._has_journal_pages():
                return False
        if (
            _MARKER_CONTENT.startswith(data)
            and data != _MARKER_CONTENT
            and (data or self._has_journal_pages())
        ):
            with suppress(ArchiveUnavailable):
                # Somebody who may only read needs no marker to go on.
                self.objects.put([(MARKER, _MARKER_CONTENT)])
            return True
        try:
            content = json.loads(data)
        except ValueError:
            raise ArchiveCorrupt(f"{self.uri} is no archive: {MARKER} is not JSON") from None
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ArchiveCorrupt(f"{self.uri} is no archive of the format {FORMAT}")
        return True

    def _has_journal_pages(self) -> bool:
        return any(self.objects.list_objects(folder) for folder in (MANIFESTS, DURABLES))

    def create_if_missing(self) -> None:
        """Begin one, if it is not there."""
        if not self.exists():
            self.objects.put([(MARKER, _MARKER_CONTENT)])

    def check_exists(self) -> None:
        """Raises `ArchiveUnavailable` where there is none: a file system may not be mounted."""
        if not self.exists():
            raise ArchiveUnavailable(f"there is no archive at {self.uri}")

    def file_uri(self, file: ArchivedFile) -> str:
        """The URI of a file, for Spark."""
        return f"{self.uri}/{file.path}"

    def state(self) -> ArchiveState:
        """What the archive has now; the same object as before when nothing is new. What is not
        there (any more) is not empty: see `check`."""
        self.check_exists()
        return self.manifests.read_state()

    def state_with_unlisted(self) -> ArchiveState:
        """The same, with the files that only damaged or missing manifests listed: they are listed
        again. For a reader that needs all that there is."""
        state = self.state()
        lost = _lost_manifests(state)
        if not any(lost) or lost == self._lost_when_relisted:
            return state
        found = find_unlisted_files(self.objects, state)
        if found.manifest.adds:
            try:
                self._temporary_writer().write(found.manifest)
            except ArchiveUnavailable:
                # It may be full. This reader knows of them all the same.
                return state.with_manifest(found.manifest)
            state = self.manifests.read_state()
        self._lost_when_relisted = _lost_manifests(state)
        return state

    def read_durables(self) -> Mapping[tuple[str, str], StoredDurable]:
        """By client and name each durable subscription: (writer, stored bytes, at)."""
        return self._durables.read_newest()

    def read_durables_of(self, writer: str) -> Mapping[tuple[str, str], bytes]:
        """Those that one writer has stored and not removed, whatever others say of them."""
        content = self._durables.read_by_writer().get(writer, {})
        return {key: stored for key, (stored, _) in content.items() if stored is not None}

    def read_damaged_durables(self) -> Mapping[str, str]:
        """Pages of durable subscriptions that can not be read, and why, by path."""
        return self._durables.read_problems()

    def open_reader_lease(self) -> ReaderLease:
        """A lease: what `state` says after it began is there until it ends.

        Long readers call its `refresh` now and then.
        """
        self.check_exists()
        return ReaderLease(self.objects, self.wall_clock)

    def read_dtd(self, reference: DtdReference) -> bytes:
        """The text of a DTD, checked. `ArchiveObjectMissing` if the archive has none."""
        text = self.state().dtds.get(reference)
        if text is None:
            raise ArchiveObjectMissing(f"the archive has no DTD of {reference}")
        return self.read_dtd_text(text)

    def read_dtd_text(self, text: DtdText) -> bytes:
        """One text of a DTD, checked. `ArchiveCorrupt` and `ArchiveObjectMissing`."""
        data = self.objects.get(text.path)
        if hashlib.sha256(data).hexdigest() != text.sha256:
            raise ArchiveCorrupt(f"{text.path} is not what its hash says")
        return data

    def open_file(self, file: ArchivedFile, *, checked: bool = False) -> pq.ParquetFile:
        """A file, to read row groups of. `checked` reads it whole first, and compares its hash.

        `ArchiveCorrupt` if it is damaged, `ArchiveObjectMissing` if it is not there.
        """
        source = (
            pa.BufferReader(self._read_verified(file)) if checked else self.objects.open(file.path)
        )
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
        self._temporary_writer().write(
            Manifest(aside={file.path: SetAside(reason, self.wall_clock())})
        )

    def _temporary_writer(self) -> ManifestWriter:
        now = self.wall_clock()
        # A guest that was silent for long may count as gone: then this is another one.
        if self._own_writer is None or now - self._own_writer_used_at > _TEMPORARY_NAME_MS:
            self._own_writer = ManifestWriter(
                self.manifests, new_temporary_writer_name(), self.wall_clock
            )
        self._own_writer_used_at = now
        return self._own_writer

    def _read_verified(self, file: ArchivedFile) -> bytes:
        data = self.objects.get(file.path)
        if len(data) != file.bytes:
            raise ArchiveCorrupt(f"{file.path} has {len(data)} bytes instead of {file.bytes}")
        if hashlib.sha256(data).hexdigest() != file.sha256:
            raise ArchiveCorrupt(f"{file.path} is not what its hash says")
        return data


def _lost_manifests(state: ArchiveState) -> tuple[frozenset[str], Mapping[str, object]]:
    return frozenset(state.problems), state.lost_ends
