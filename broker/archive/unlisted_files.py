"""Search for event files that no manifest lists.

Their manifests are lost, so they are listed again, and neighbouring places are covered again. Files
of an aborted flush or merge are listed as well: repeated places count as one event.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from broker.archive.archive_state import ArchiveState
from broker.archive.interval import Interval, Intervals, union
from broker.archive.layout import EVENTS
from broker.archive.manifest import Manifest
from broker.archive.manifest_entry import ArchivedFile
from broker.archive.object_store import ObjectStore
from broker.archive.parquet import describe_file
from broker.archive.row_check import check_partition_and_hour, check_rows
from broker.archive.table import is_archive_schema
from broker.errors import ArchiveCorrupt, ArchiveObjectMissing


@attrs.define
class UnlistedFiles:
    manifest: Manifest = attrs.field(factory=Manifest)
    """Entries of the readable files."""
    unreadable: dict[str, str] = attrs.field(factory=dict)
    """The reason for each unreadable file, by path."""


def find_unlisted_files(objects: ObjectStore, state: ArchiveState) -> UnlistedFiles:
    """Read all files that no manifest lists. Raises `ArchiveUnavailable`."""
    found = UnlistedFiles()
    places: dict[str, list[Interval]] = defaultdict(list)
    everything = state.manifest
    for each in objects.list_objects(EVENTS):
        if each.path in everything.adds or each.path in everything.removes:
            continue
        try:
            file, runs = _read_file(objects, each.path)
        except ArchiveObjectMissing:
            # A failed flush deletes its files.
            continue
        except ArchiveCorrupt as error:
            found.unreadable[each.path] = error.text
            continue
        found.manifest.adds[each.path] = file
        for origin, intervals in runs:
            places[origin] += intervals
    found.manifest.add_covers(
        (origin, *each) for origin, intervals in places.items() for each in union(intervals)
    )
    return found


def _read_file(objects: ObjectStore, path: str) -> tuple[ArchivedFile, list[tuple[str, Intervals]]]:
    data = objects.get(path)
    try:
        with pq.ParquetFile(pa.BufferReader(data)) as opened:
            if not is_archive_schema(opened.schema_arrow):
                raise ArchiveCorrupt(f"{path} does not have the columns of an archive")
            rows = opened.read(use_threads=False)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ArchiveCorrupt(f"{path} cannot be read: {error}") from None
    parts = check_rows(iter(rows.to_batches()))
    partition = "/".join(path.split("/")[1:-2])
    file = describe_file(parts, partition, len(data), hashlib.sha256(data).hexdigest(), path)
    check_partition_and_hour(file, parts)
    return file, list(_intervals_by_origin(rows))


def _intervals_by_origin(rows: pa.Table) -> Iterator[tuple[str, Intervals]]:
    """Yield intervals of sorted rows without unused offsets."""
    origins = rows.column("origin").to_pylist()
    epochs, offsets = (rows.column(name).to_numpy() for name in ("epoch", "offset"))
    follows = (np.diff(offsets) == 1) & (np.diff(epochs) == 0)
    follows &= np.array([a == b for a, b in zip(origins, origins[1:], strict=False)], dtype=bool)
    starts = [0, *(np.flatnonzero(~follows) + 1).tolist()]
    for start, end in zip(starts, [*starts[1:], len(offsets)], strict=True):
        epoch = int(epochs[start])
        yield origins[start], (((epoch, int(offsets[start]) - 1), (epoch, int(offsets[end - 1]))),)
