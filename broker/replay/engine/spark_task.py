"""The work of Spark's Python workers. This module does not import Spark.

Workers are reused, so a matcher is built once per worker and job.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from broker.archive.archive import Archive
from broker.replay.engine.part_scan import (
    EVENT_SCHEMA,
    KEY_SCHEMA,
    FoundEvents,
    PartSummary,
    scan_part,
)
from broker.replay.engine.plan import Part
from broker.replay.engine.request_matcher import RequestMatcher
from broker.replay.engine.scanner import JobContext, scan_part_into

_SUMMARY_FIELD: Final = pa.field("note", pa.binary())
_EVENT_ONLY_FIELDS: Final = [field for field in EVENT_SCHEMA if field.name not in KEY_SCHEMA.names]
#: Rows for events in the folder, and rows that carry the events.
WRITTEN_SCHEMA: Final = pa.schema([*KEY_SCHEMA, _SUMMARY_FIELD])
RETURNED_SCHEMA: Final = pa.schema([*KEY_SCHEMA, *_EVENT_ONLY_FIELDS, _SUMMARY_FIELD])

_cached_matcher: list[tuple[str, Archive, RequestMatcher]] = []


def scan_parts(
    context: JobContext, parts: Sequence[Part], *, shared_folder: bool
) -> Iterator[pa.RecordBatch]:
    """Yield `WRITTEN_SCHEMA` rows if workers share the folder, else `RETURNED_SCHEMA`."""
    if not _cached_matcher or _cached_matcher[0][0] != context.job:
        archive = Archive.open(context.uri, create=False)
        _cached_matcher[:] = [(context.job, archive, context.new_matcher())]
    [(_, archive, matcher)] = _cached_matcher
    for part in parts:
        if shared_folder:
            folder = Path(context.folder)
            for item in scan_part_into(folder, archive, part, matcher, context.limits):
                yield (
                    _summary_row(item, WRITTEN_SCHEMA)
                    if isinstance(item, PartSummary)
                    else _add_empty_summary(item, WRITTEN_SCHEMA)
                )
        else:
            for found in scan_part(archive, part, matcher, context.limits):
                yield (
                    _summary_row(found, RETURNED_SCHEMA)
                    if isinstance(found, PartSummary)
                    else _join_events(found)
                )


def decode_rows(table: pa.Table) -> Iterator[FoundEvents | PartSummary]:
    """`WRITTEN_SCHEMA` rows give no events."""
    noted = table.column("note").is_valid()
    for data in table.column("note").filter(noted).to_pylist():
        yield PartSummary.from_bytes(data)
    for batch in table.filter(pc.invert(noted)).combine_chunks().to_batches():
        names = EVENT_SCHEMA.names if "document" in batch.schema.names else []
        yield FoundEvents(batch.select(KEY_SCHEMA.names).cast(KEY_SCHEMA), batch.select(names))


def _summary_row(summary: PartSummary, schema: pa.Schema) -> pa.RecordBatch:
    values = {"part": summary.part, "note": summary.to_bytes()}
    return pa.RecordBatch.from_pylist([values], schema=schema)


def _add_empty_summary(keys: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [*keys.columns, pa.nulls(keys.num_rows, _SUMMARY_FIELD.type)], schema=schema
    )


def _join_events(found: FoundEvents) -> pa.RecordBatch:
    rest = [found.events.column(field.name) for field in _EVENT_ONLY_FIELDS]
    nothing = pa.nulls(found.keys.num_rows, _SUMMARY_FIELD.type)
    return pa.RecordBatch.from_arrays([*found.keys.columns, *rest, nothing], schema=RETURNED_SCHEMA)
