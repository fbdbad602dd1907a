"""Scan of one file for all requests.

Each needed event comes once, with the numbers of its requests. A summary comes last.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import attrs
import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from broker.archive.archive import Archive
from broker.archive.table import complete_columns
from broker.errors import ArchiveCorrupt, ArchiveObjectMissing
from broker.log.logged_event import EVENT_OVERHEAD
from broker.replay.engine.contract import JobLimits
from broker.replay.engine.plan import Part
from broker.replay.engine.quota import JobQuota
from broker.replay.engine.request_matcher import MatchedPairs, RequestMatcher
from broker.replay.ordering import Integers
from broker.wire.codec import Count, Schema, WireErrorFields, pack

#: This limits a worker's memory.
_MAX_PAIRS_PER_BATCH: Final = 4_000_000
_MAX_BATCH_ROWS: Final = 8_192
_MIN_BATCH_ROWS: Final = 64
#: Approximate, without names.
_HEADER_BYTES: Final = 80

#: Columns for the order and the copies of events. `row` is the position in the part.
KEY_SCHEMA: Final = pa.schema(
    [
        *(pa.field("part", pa.int32()), pa.field("row", pa.int32())),
        *(pa.field("origin", pa.string()), pa.field("epoch", pa.int64())),
        *(pa.field("offset", pa.int64()), pa.field("arrival", pa.int64())),
        *(pa.field("client", pa.string()), pa.field("timestamp", pa.int64())),
        *(pa.field("sequence", pa.int64()), pa.field("incarnation", pa.int64())),
        *(pa.field("stack", pa.string()), pa.field("stack_order", pa.int64())),
        pa.field("stack_site", pa.string()),
        pa.field("size", pa.int32()),
        pa.field("requests", pa.list_(pa.int32())),
    ]
)
#: An event is rebuilt from these columns (`broker.archive.table`).
EVENT_SCHEMA: Final = pa.schema(
    [
        *(pa.field("origin", pa.string()), pa.field("epoch", pa.int64())),
        *(pa.field("offset", pa.int64()), pa.field("arrival", pa.int64())),
        pa.field("level", pa.int8()),
        *(pa.field("client", pa.string()), pa.field("timestamp", pa.int64())),
        *(pa.field("sequence", pa.int64()), pa.field("incarnation", pa.int64())),
        *(pa.field("stream", pa.string()), pa.field("type", pa.string())),
        *(pa.field("version", pa.string()), pa.field("liveness", pa.int8())),
        *(pa.field("document", pa.binary()), pa.field("annotation", pa.binary())),
        *(pa.field("proof", pa.binary()), pa.field("time", pa.int64())),
    ]
)
_COLUMNS: Final = [*EVENT_SCHEMA.names, "stack", "stack_order", "stack_site"]


@attrs.frozen(eq=False)
class FoundEvents:
    keys: pa.RecordBatch
    events: pa.RecordBatch


class PartSummary(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    part: int
    denied: tuple[tuple[Count, Count], ...] = ()
    """(request, count)."""
    failed: tuple[tuple[Count, WireErrorFields], ...] = ()
    corrupt: str = ""
    """Reason why the file is unreadable."""
    missing: bool = False
    unreadable: int = 0
    undescribed: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        return pack(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> PartSummary:
        return _SUMMARY.decode(data)


_SUMMARY: Final = Schema[PartSummary](PartSummary, "summary of a part")


def scan_part(
    archive: Archive, part: Part, matcher: RequestMatcher, limits: JobLimits
) -> Iterator[FoundEvents | PartSummary]:
    size = len(matcher.scope.start)
    quota = JobQuota(size, limits)
    denied = np.zeros(size, dtype=np.int64)
    row = 0
    corrupt, missing = "", False
    unreadable = matcher.unreadable
    requested = part.requests
    try:
        for batch in _read_batches(archive, part, matcher):
            matched = matcher.match(batch, requested)
            denied += matched.denied
            found = _build_found(batch, matched, part.number, row)
            sizes = found.keys.column("size").to_numpy()
            counts = np.diff(found.keys.column("requests").offsets.to_numpy())
            numbers = found.keys.column("requests").flatten().to_numpy()
            if refused_requests := quota.add_events(numbers, np.repeat(sizes, counts)):
                requested = requested[~np.isin(requested, refused_requests)]
            row += found.keys.num_rows
            yield found
    except ArchiveObjectMissing:
        missing = True
    except ArchiveCorrupt as error:
        corrupt = error.text
    yield PartSummary(
        part.number,
        tuple((int(n), int(denied[n])) for n in np.flatnonzero(denied)),
        tuple({**matcher.failed, **quota.refused}.items()),
        corrupt,
        missing,
        matcher.unreadable - unreadable,
        tuple(sorted(map(str, matcher.dtds.undescribed))) + tuple(matcher.dtds.problems),
    )


def _read_batches(
    archive: Archive, part: Part, matcher: RequestMatcher
) -> Iterator[pa.RecordBatch]:
    rows = _MAX_PAIRS_PER_BATCH // max(1, len(part.requests))
    rows = min(_MAX_BATCH_ROWS, max(_MIN_BATCH_ROWS, rows))
    with archive.open_file(part.file, checked=True) as opened:
        groups = _select_row_groups(opened.metadata, part, matcher)
        try:
            batches = opened.iter_batches(rows, groups, columns=_COLUMNS, use_threads=False)
            yield from map(complete_columns, batches)
        except (pa.ArrowException, OSError) as error:
            raise ArchiveCorrupt(f"{part.file.path} cannot be read: {error}") from None


def _select_row_groups(metadata: pq.FileMetaData, part: Part, matcher: RequestMatcher) -> list[int]:
    every = list(range(metadata.num_row_groups))
    if len(every) == 1 and not matcher.scope.has_event_ranges:
        return every
    requested = np.zeros(len(matcher.scope.start), dtype=np.bool_)
    requested[part.requests] = True
    return [
        n
        for n in every
        if (requested & matcher.scope.overlaps_bounds(_row_group_bounds(metadata, n))).any()
    ]


def _row_group_bounds(metadata: pq.FileMetaData, group: int) -> dict[str, tuple[Any, ...]]:
    """Return (minimum, maximum) of the columns that have statistics; () for one that may be absent
    and has no value."""
    found: dict[str, tuple[Any, ...]] = {} if "time" in metadata.schema.names else {"time": ()}
    rows = metadata.row_group(group).num_rows
    for place in range(metadata.num_columns):
        column = metadata.row_group(group).column(place)
        statistics = column.statistics
        if statistics is not None and statistics.has_min_max:
            found[column.path_in_schema] = (statistics.min, statistics.max)
        elif statistics is not None and statistics.null_count == rows:
            found[column.path_in_schema] = ()
    return found


def _build_found(
    batch: pa.RecordBatch, matched: MatchedPairs, part: int, first: int
) -> FoundEvents:
    rows, starts = np.unique(matched.rows, return_index=True)
    if len(rows) < batch.num_rows:
        batch = batch.take(pa.array(rows))
    requests = pa.ListArray.from_arrays(
        pa.array(np.append(starts, len(matched.rows)), pa.int32()),
        pa.array(matched.requests, pa.int32()),
    )
    events = pa.RecordBatch.from_arrays(
        [batch.column(field.name).cast(field.type) for field in EVENT_SCHEMA], schema=EVENT_SCHEMA
    )
    made = {
        "part": pa.array(np.full(len(rows), part), pa.int32()),
        "row": pa.array(np.arange(first, first + len(rows)), pa.int32()),
        "size": pa.array(_estimate_sizes(events), pa.int32()),
        "requests": requests,
    }
    keys = [
        made[field.name] if field.name in made else batch.column(field.name).cast(field.type)
        for field in KEY_SCHEMA
    ]
    return FoundEvents(pa.RecordBatch.from_arrays(keys, schema=KEY_SCHEMA), events)


def _estimate_sizes(events: pa.RecordBatch) -> Integers:
    lengths = pc.binary_length(events.column("document")).to_numpy()
    return np.asarray(lengths + _HEADER_BYTES + EVENT_OVERHEAD)
