"""An open archive: its state, and reading from it."""

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
from broker.archive.table import complete_columns, is_archive_schema
from broker.archive.unlisted_files import find_unlisted_files
from broker.dtd.reference import DtdReference
from broker.errors import ArchiveCorrupt, ArchiveObjectMissing, ArchiveUnavailable
from broker.transport.clock import wall_clock_ms

#: Rows per batch of `Archive.read`: some megabytes of events.
BATCH_ROWS: Final = 8192
#: Prefix of writers used once: after a day of silence, expiry absorbs their manifests.
TEMPORARY_WRITER_PREFIX: Final = "guest-"
#: Ms of disuse after which a temporary writer's name is replaced.
_TEMPORARY_NAME_MS: Final = 3_600_000
_MARKER_CONTENT: Final = json.dumps({"format": FORMAT}).encode() + b"\n"


def new_temporary_writer_name() -> str:
    """Return a name for a writer that is used once."""
    return f"{TEMPORARY_WRITER_PREFIX}{secrets.token_hex(8)}"


class Archive:
    """An archive, used by one thread. All methods block and may raise `ArchiveUnavailable`."""

    def __init__(self, objects: ObjectStore, wall_clock: Callable[[], int] = wall_clock_ms) -> None:
        """The archive may not exist; `open` checks that."""
        self.objects = objects
        self.wall_clock = wall_clock
        self.manifests = ManifestJournal(objects)
        self._durables = DurableJournal(objects)
        self._lost_when_relisted: object = None
        """The lost manifests at the last search for unlisted files."""
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
        """Open the archive at a path or URI (`file:///...`, `s3://...`).

        Without `create` a missing archive raises `ArchiveUnavailable`. Raises `ConfigurationError`
        for an invalid URI, and `ArchiveCorrupt` if the place holds something else.
        """
        archive = cls(open_object_store(uri, disk), wall_clock)
        if create:
            archive.create_if_missing()
        else:
            archive.check_exists()
        return archive

    @property
    def uri(self) -> str:
        """URI of the root folder; Spark reads it too."""
        return self.objects.uri

    def exists(self) -> bool:
        """Raises `ArchiveCorrupt` if the place holds something else.

        A truncated marker is written again, and a missing one if the archive has pages.
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
                # A reader without write access works without the marker.
                self.objects.put([(MARKER, _MARKER_CONTENT)])
            return True
        try:
            content = json.loads(data)
        except ValueError:
            raise ArchiveCorrupt(f"{self.uri} is not an archive: {MARKER} is not JSON") from None
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ArchiveCorrupt(f"{self.uri} is not an archive of the format {FORMAT}")
        return True

    def _has_journal_pages(self) -> bool:
        return any(self.objects.list_objects(folder) for folder in (MANIFESTS, DURABLES))

    def create_if_missing(self) -> None:
        if not self.exists():
            self.objects.put([(MARKER, _MARKER_CONTENT)])

    def check_exists(self) -> None:
        """Raise `ArchiveUnavailable` without an archive: its file system may not be mounted."""
        if not self.exists():
            raise ArchiveUnavailable(f"there is no archive at {self.uri}")

    def file_uri(self, file: ArchivedFile) -> str:
        return f"{self.uri}/{file.path}"

    def state(self) -> ArchiveState:
        """Return the current state; the same object while nothing changed.

        Raises `ArchiveUnavailable` for a missing archive.
        """
        self.check_exists()
        return self.manifests.read_state()

    def state_with_unlisted(self) -> ArchiveState:
        """List the files of lost manifests again, for readers that need all events."""
        state = self.state()
        lost = _lost_manifests(state)
        if not any(lost) or lost == self._lost_when_relisted:
            return state
        found = find_unlisted_files(self.objects, state)
        if found.manifest.adds:
            try:
                self._temporary_writer().write(found.manifest)
            except ArchiveUnavailable:
                # The disk may be full: this reader uses the files all the same.
                return state.with_manifest(found.manifest)
            state = self.manifests.read_state()
        self._lost_when_relisted = _lost_manifests(state)
        return state

    def read_durables(self) -> Mapping[tuple[str, str], StoredDurable]:
        """Return (writer, stored bytes, ms since 1970) by client and name."""
        return self._durables.read_newest()

    def read_durables_of(self, writer: str) -> Mapping[tuple[str, str], bytes]:
        content = self._durables.read_by_writer().get(writer, {})
        return {key: stored for key, (stored, _) in content.items() if stored is not None}

    def read_damaged_durables(self) -> Mapping[str, str]:
        return self._durables.read_problems()

    def open_reader_lease(self) -> ReaderLease:
        """Protect the objects of later states from deletion.

        Long readers call its `renew`.
        """
        self.check_exists()
        return ReaderLease(self.objects, self.wall_clock)

    def read_dtd(self, reference: DtdReference) -> bytes:
        """Raises `ArchiveObjectMissing` if the archive has no such DTD."""
        text = self.state().dtds.get(reference)
        if text is None:
            raise ArchiveObjectMissing(f"the archive has no DTD for {reference}")
        return self.read_dtd_text(text)

    def read_dtd_text(self, text: DtdText) -> bytes:
        """Raises `ArchiveCorrupt` and `ArchiveObjectMissing`."""
        data = self.objects.get(text.path)
        if hashlib.sha256(data).hexdigest() != text.sha256:
            raise ArchiveCorrupt(f"{text.path} does not match its hash")
        return data

    def open_file(self, file: ArchivedFile, *, checked: bool = False) -> pq.ParquetFile:
        """Open a file to read row groups; `checked` first compares its hash.

        Raises `ArchiveCorrupt` and `ArchiveObjectMissing`.
        """
        source = (
            pa.BufferReader(self._read_verified(file)) if checked else self.objects.open(file.path)
        )
        try:
            opened = pq.ParquetFile(source)
        except (pa.ArrowException, OSError) as error:
            raise ArchiveCorrupt(f"{file.path} cannot be read: {error}") from None
        if not is_archive_schema(opened.schema_arrow):
            raise ArchiveCorrupt(f"{file.path} does not have the columns of an archive")
        return opened

    def read(
        self,
        file: ArchivedFile,
        columns: Sequence[str] | None = None,
        *,
        checked: bool = False,
        batch_rows: int = BATCH_ROWS,
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows in order. Raises as `open_file`."""
        with self.open_file(file, checked=checked) as opened:
            try:
                batches = opened.iter_batches(batch_rows, columns=columns, use_threads=False)
                yield from batches if columns is not None else map(complete_columns, batches)
            except (pa.ArrowException, OSError) as error:
                raise ArchiveCorrupt(f"{file.path} cannot be read: {error}") from None

    def set_aside(self, file: ArchivedFile, reason: str) -> None:
        """Mark a damaged file as not to be read. Its places count as lost."""
        self._temporary_writer().write(
            Manifest(aside={file.path: SetAside(reason, self.wall_clock())})
        )

    def _temporary_writer(self) -> ManifestWriter:
        now = self.wall_clock()
        # Expiry may have absorbed an unused name.
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
            raise ArchiveCorrupt(f"{file.path} does not match its hash")
        return data


def _lost_manifests(state: ArchiveState) -> tuple[frozenset[str], Mapping[str, object]]:
    return frozenset(state.problems), state.lost_ends
