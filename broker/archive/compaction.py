"""Compaction: merge small files of one partition and hour, and split large streams off.

One manifest makes a merge atomic. Two concurrent compactors may merge the same file: its places are
stored twice until the next merge.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from broker.archive.archive import Archive
from broker.archive.layout import SHARED_TOKEN, hour_end
from broker.archive.manifest import Manifest, SetAside
from broker.archive.manifest_entry import ArchivedFile
from broker.archive.manifest_journal import ManifestWriter
from broker.archive.parquet import EncodedFile, ParquetFileWriter
from broker.archive.sorted_merge import DamagedFileError, merge_rows
from broker.errors import ArchiveCorrupt

_MIB: Final = 1 << 20


@attrs.frozen
class CompactionRules:
    target_bytes: int = 64 * _MIB
    target_rows: int = 1_000_000
    """A file has at most about this size. A file below half of both targets is small."""
    settled_ms: int = 600_000
    """Ms after its end at which an hour is settled. Only late replicas still write to it."""
    min_files_in_open_hour: int = 32
    """Number of small files that are merged in an hour that is not settled."""
    split_bytes: int = 16 * _MIB
    """A stream with more bytes in a file of a shared partition gets files of its own."""


@attrs.frozen
class Merge:
    """Files of one partition and hour that become one or a few."""

    partition: str
    hour: str
    files: tuple[ArchivedFile, ...]

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)


@attrs.define
class CompactionResult:
    merges: int = 0
    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    duplicates: int = 0
    """Rows that repeated a place."""
    damaged: list[str] = attrs.field(factory=list)
    """Paths of files that were set aside."""
    passed_over: int = 0
    """Merges skipped because a file was missing or damaged. The next run merges their other files.
    """


def plan_merges(files: Iterable[ArchivedFile], rules: CompactionRules, now: int) -> list[Merge]:
    """Return the due merges, oldest hours first. `now` is in ms since 1970."""
    groups: dict[tuple[str, str], list[ArchivedFile]] = defaultdict(list)
    for file in files:
        groups[file.hour, file.partition].append(file)
    merges: list[Merge] = []
    for (hour, partition), group in sorted(groups.items()):
        settled = hour_end(hour) + rules.settled_ms <= now
        small = [each for each in group if _is_small(each, rules)]
        if not settled:
            small = _of_similar_size(small)
        if len(small) >= (2 if settled else rules.min_files_in_open_hour):
            merges += [
                Merge(partition, hour, files) for files in _group_by_target_size(small, rules)
            ]
        if settled:
            merges += [
                Merge(partition, hour, (each,))
                for each in group
                if each not in small and _has_large_stream(each, rules)
            ]
    return merges


class Compaction:
    """Compaction of one archive, by one writer."""

    def __init__(
        self, archive: Archive, manifest_writer: ManifestWriter, rules: CompactionRules
    ) -> None:
        self._archive = archive
        self._manifest_writer = manifest_writer
        self._rules = rules
        self.result = CompactionResult()

    def plan(self) -> list[Merge]:
        files = self._archive.state().files.values()
        return plan_merges(files, self._rules, self._archive.wall_clock())

    def run(
        self,
        progress: Callable[[int, int], object] = lambda done, of: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> CompactionResult:
        """Do all due merges; `progress` receives merged and total bytes. Raises
        `ArchiveUnavailable`."""
        with self._archive.open_reader_lease() as lease:
            merges = self.plan()
            of, done = sum(merge.bytes for merge in merges), 0
            for merge in merges:
                if cancelled():
                    break
                self._merge(merge)
                lease.renew()
                done += merge.bytes
                progress(done, of)
        return self.result

    def _merge(self, merge: Merge) -> None:
        try:
            new_files = list(self._merged_files(merge))
        except DamagedFileError as damaged:
            self.result.passed_over += 1
            path = damaged.file.path
            # Another compactor may have merged the file.
            if not damaged.missing or path in self._archive.state().files:
                self.result.damaged.append(path)
                aside = SetAside(damaged.reason, self._archive.wall_clock())
                self._manifest_writer.write(Manifest(aside={path: aside}))
            return
        self._archive.objects.put([(each.file.path, each.data) for each in new_files])
        now = self._archive.wall_clock()
        self._manifest_writer.write(
            Manifest(
                adds={each.file.path: each.file for each in new_files},
                removes={file.path: now for file in merge.files},
            )
        )
        self._count(merge, new_files)

    def _merged_files(self, merge: Merge) -> Iterator[EncodedFile]:
        growing: dict[str, ParquetFileWriter] = {}
        own_partitions = self._large_streams(merge)
        for rows in merge_rows(merge.files, self._read):
            for partition, part in _split_by_stream(rows, merge.partition, own_partitions):
                file = growing.setdefault(partition, ParquetFileWriter(partition))
                file.add_rows(part)
                if file.rows >= self._rules.target_rows or file.bytes >= self._rules.target_bytes:
                    yield growing.pop(partition).finish()
        for file in growing.values():
            yield file.finish()

    def _read(self, file: ArchivedFile) -> Iterator[pa.RecordBatch]:
        return self._archive.read(file, checked=True)

    def _large_streams(self, merge: Merge) -> frozenset[str]:
        if not merge.partition.endswith(SHARED_TOKEN):
            return frozenset()
        sizes: Counter[str] = Counter()
        for file in merge.files:
            try:
                for stream, rows in _rows_by_stream(self._archive, file).items():
                    sizes[stream] += rows * file.bytes // file.rows
            except ArchiveCorrupt as error:
                raise DamagedFileError.from_error(file, error) from None
        return frozenset(s for s, size in sizes.items() if size >= self._rules.split_bytes)

    def _count(self, merge: Merge, new_files: Sequence[EncodedFile]) -> None:
        self.result.merges += 1
        self.result.files_before += len(merge.files)
        self.result.files_after += len(new_files)
        self.result.bytes_before += merge.bytes
        self.result.bytes_after += sum(each.file.bytes for each in new_files)
        rows = sum(file.rows for file in merge.files)
        self.result.duplicates += rows - sum(each.file.rows for each in new_files)


def _rows_by_stream(archive: Archive, file: ArchivedFile) -> Mapping[str, int]:
    counts: Counter[str] = Counter()
    for batch in archive.read(file, ["stream"]):
        for each in pc.value_counts(batch.column("stream")).to_pylist():
            counts[each["values"]] += each["counts"]
    return counts


def _split_by_stream(
    rows: pa.Table, partition: str, own_partitions: frozenset[str]
) -> Iterator[tuple[str, pa.Table]]:
    if not own_partitions:
        yield partition, rows
        return
    streams = rows.column("stream").cast(pa.string())
    shared = pc.invert(pc.is_in(streams, pa.array(sorted(own_partitions))))
    for name, chosen in (
        (partition, shared),
        *((stream, pc.equal(streams, stream)) for stream in sorted(own_partitions)),
    ):
        part = rows.filter(chosen)
        if part.num_rows:
            yield name, part


def _is_small(file: ArchivedFile, rules: CompactionRules) -> bool:
    return file.bytes < rules.target_bytes // 2 and file.rows < rules.target_rows // 2


def _of_similar_size(files: list[ArchivedFile]) -> list[ArchivedFile]:
    """Drop files larger than all smaller ones together: each byte is merged seldom."""
    rest = sorted(files, key=lambda file: file.bytes)
    total = sum(file.bytes for file in rest)
    while rest and rest[-1].bytes > total - rest[-1].bytes:
        total -= rest.pop().bytes
    return rest


def _group_by_target_size(
    files: Sequence[ArchivedFile], rules: CompactionRules
) -> Iterator[tuple[ArchivedFile, ...]]:
    group: list[ArchivedFile] = []
    size = rows = 0
    for file in sorted(files, key=lambda file: (min(file.spans), file.spans[min(file.spans)])):
        if group and (
            size + file.bytes > rules.target_bytes or rows + file.rows > rules.target_rows
        ):
            if len(group) > 1:
                yield tuple(group)
            group, size, rows = [], 0, 0
        group.append(file)
        size, rows = size + file.bytes, rows + file.rows
    if len(group) > 1:
        yield tuple(group)


def _has_large_stream(file: ArchivedFile, rules: CompactionRules) -> bool:
    if not file.partition.endswith(SHARED_TOKEN) or not file.streams:
        return False
    return file.bytes // len(file.streams) >= rules.split_bytes
