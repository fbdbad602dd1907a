"""Writing to the archive. A flush writes some files and one manifest, atomically."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Final

import attrs
import numpy as np
import pyarrow as pa

from broker.archive.archive import Archive
from broker.archive.durable_journal import DurableJournalWriter
from broker.archive.layout import assign_partitions, dtd_path
from broker.archive.manifest import Manifest
from broker.archive.manifest_entry import DtdText, OriginDtdVariant
from broker.archive.manifest_journal import ManifestWriter
from broker.archive.observed_coverage import ObservedCoverage
from broker.archive.parquet import COMPRESSION_LEVEL, EncodedFile, encode_file
from broker.archive.row_order import sort_and_deduplicate
from broker.archive.table import events_to_batch
from broker.dtd.reference import DtdReference
from broker.errors import ArchiveUnavailable
from broker.event.place import Mark
from broker.log.logged_event import LoggedEvent

_HOUR_MS: Final = 3_600_000


@attrs.frozen
class WriteResult:
    files: tuple[str, ...]
    rows: int
    bytes: int


class ArchiveWriter:
    """Writes flushes, each atomically. Several writers may write at once, each under its own
    name."""

    def __init__(
        self,
        archive: Archive,
        name: str,
        wall_clock: Callable[[], int],
        *,
        level: int = COMPRESSION_LEVEL,
    ) -> None:
        """`wall_clock` returns ms since 1970; `level` is zstd's. Raises `BadName`."""
        self._archive = archive
        self._manifest_writer = ManifestWriter(archive.manifests, name, wall_clock)
        self._durables = DurableJournalWriter(archive.objects, name, wall_clock)
        self._wall_clock = wall_clock
        self._level = level
        self._observed_coverage = ObservedCoverage(name)
        self._archived_texts: set[tuple[DtdReference, str]] = set()

    @property
    def manifest_writer(self) -> ManifestWriter:
        """Writer of this name's manifests, also for compaction and expiry."""
        return self._manifest_writer

    def write(
        self,
        covers: Sequence[tuple[str, Mark, Mark]],
        events: Sequence[LoggedEvent] | pa.RecordBatch,
        dtds: Mapping[DtdReference, bytes],
        uses: Collection[OriginDtdVariant] = (),
    ) -> WriteResult:
        """Archive events or rows, atomically.

        `covers` are the places of which these are all events. `uses` names DTD texts that replace
        the default for an origin.

        All documents together must be below 2 GiB. The call can be repeated after
        `ArchiveUnavailable`: repeated places count as one event.
        """
        manifest = Manifest()
        manifest.add_covers(covers)
        texts = self._find_new_texts(dtds)
        files = self._encode_files(events)
        objects = [(text.path, data) for text, data in texts]
        objects += [(each.file.path, each.data) for each in files]
        try:
            self._archive.objects.put(objects)
        except ArchiveUnavailable:
            self._delete_files(files)
            raise
        manifest.adds = {each.file.path: each.file for each in files}
        manifest.dtds = {text for text, _ in texts}
        manifest.uses = set(uses)
        state = self._archive.state()
        manifest.add_heals(state.ranges_healed_by(covers))
        self._observed_coverage.observe(
            state, self._archive.manifests.manifest_of(self._manifest_writer.writer)
        )
        entries = self._observed_coverage.unreported()
        manifest.merge(entries)
        self._manifest_writer.write(manifest)
        self._observed_coverage.mark_reported(entries, self._wall_clock())
        self._archived_texts |= {(text.reference, text.sha256) for text, _ in texts}
        return WriteResult(
            tuple(manifest.adds),
            sum(each.file.rows for each in files),
            sum(each.file.bytes for each in files),
        )

    def report_observed_coverage(self) -> None:
        """Record the observed coverage, if it is due. Raises `ArchiveUnavailable`."""
        state, now = self._archive.state(), self._wall_clock()
        self._observed_coverage.observe(
            state, self._archive.manifests.manifest_of(self._manifest_writer.writer)
        )
        if self._observed_coverage.is_due(state, now):
            entries = self._observed_coverage.unreported()
            self._manifest_writer.write(entries)
            self._observed_coverage.mark_reported(entries, now)

    def restore_dtds(self, lost: Collection[DtdText], dtds: Mapping[DtdReference, bytes]) -> None:
        """Put lost texts again if `dtds` has the same ones. Raises `ArchiveUnavailable`."""
        hashes = {each: hashlib.sha256(text).hexdigest() for each, text in dtds.items()}
        found = [
            (text.path, dtds[text.reference])
            for text in lost
            if hashes.get(text.reference) == text.sha256
        ]
        if found:
            self._archive.objects.put(found)

    def put_durables(self, changes: Sequence[tuple[str, str, bytes | None]]) -> None:
        """Store (client, name, stored bytes); None removes what this writer stored."""
        if changes:
            self._durables.put_changes(changes)

    def _delete_files(self, files: list[EncodedFile]) -> None:
        with suppress(ArchiveUnavailable):
            self._archive.objects.delete([each.file.path for each in files])

    def _find_new_texts(self, dtds: Mapping[DtdReference, bytes]) -> list[tuple[DtdText, bytes]]:
        hashes = {each: hashlib.sha256(text).hexdigest() for each, text in dtds.items()}
        if not hashes.items() <= self._archived_texts:
            everything = self._archive.state().manifest
            self._archived_texts = {(text.reference, text.sha256) for text in everything.dtds}
        now = self._wall_clock()
        return [
            (
                DtdText(
                    *(now, sha256, len(dtds[each]), each),
                    dtd_path(each.type, each.version, sha256),
                ),
                dtds[each],
            )
            for each, sha256 in hashes.items()
            if (each, sha256) not in self._archived_texts
        ]

    def _encode_files(self, events: Sequence[LoggedEvent] | pa.RecordBatch) -> list[EncodedFile]:
        if not len(events):
            return []
        if not isinstance(events, pa.RecordBatch):
            events = events_to_batch(events)
        rows = pa.Table.from_batches([events])
        return [
            encode_file(sort_and_deduplicate(part), partition, self._level)
            for partition, part in split_by_partition(rows)
        ]


def split_by_partition(rows: pa.Table) -> list[tuple[str, pa.Table]]:
    streams = rows.column("stream").combine_chunks()
    names = streams.dictionary.to_pylist()
    hours = rows.column("arrival").to_numpy() // _HOUR_MS
    numbers = streams.indices.to_numpy()
    parts: list[tuple[str, pa.Table]] = []
    for hour in np.unique(hours):
        of_hour = hours == hour
        partitions = assign_partitions([names[number] for number in np.unique(numbers[of_hour])])
        listed = sorted(set(partitions.values()))
        ranks = np.array([listed.index(partitions[n]) if n in partitions else -1 for n in names])
        for rank, partition in enumerate(listed):
            chosen = np.flatnonzero(of_hour & (ranks[numbers] == rank))
            whole = len(chosen) == rows.num_rows
            parts.append((partition, rows if whole else rows.take(chosen)))
    return parts
