"""What a Python worker of Spark does: some parts of a job, by a matcher that it keeps.

Workers are used again for the next task, so the matcher is built, and learns, once per worker and
job. Nothing of Spark is imported here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from broker.archive.archive import Archive
from broker.replay.engine.matching import Matching
from broker.replay.engine.plan import Part
from broker.replay.engine.scan import EVENT, KEYS, Found, Note, scan
from broker.replay.engine.scanner import Context, scan_into

_NOTE: Final = pa.field("note", pa.binary())
#: Columns of events that are not among the keys.
_REST: Final = [field for field in EVENT if field.name not in KEYS.names]
#: Where the events of a part are written by the worker; and where they come back with the keys.
WRITTEN: Final = pa.schema([*KEYS, _NOTE])
RETURNED: Final = pa.schema([*KEYS, *_REST, _NOTE])

_kept: list[tuple[str, Archive, Matching]] = []


def scan_parts(
    context: Context, parts: Sequence[Part], *, shared_folder: bool
) -> Iterator[pa.RecordBatch]:
    """Rows of `WRITTEN` if the job's folder can be written from here, else of `RETURNED`."""
    if not _kept or _kept[0][0] != context.job:
        archive = Archive.open(context.uri, create=False)
        _kept[:] = [(context.job, archive, context.matching())]
    [(_, archive, matching)] = _kept
    for part in parts:
        if shared_folder:
            folder = Path(context.folder)
            for item in scan_into(folder, archive, part, matching, context.limits):
                yield _row(item, WRITTEN) if isinstance(item, Note) else _with(item, WRITTEN)
        else:
            for found in scan(archive, part, matching, context.limits):
                yield _row(found, RETURNED) if isinstance(found, Note) else _joined(found)


def told(table: pa.Table) -> Iterator[Found | Note]:
    """The rows that `scan_parts` gave, in their order, as what they mean; of `WRITTEN` ones the
    events are empty."""
    noted = table.column("note").is_valid()
    for data in table.column("note").filter(noted).to_pylist():
        yield Note.from_bytes(data)
    for batch in table.filter(pc.invert(noted)).combine_chunks().to_batches():
        names = EVENT.names if "document" in batch.schema.names else []
        yield Found(batch.select(KEYS.names).cast(KEYS), batch.select(names))


def _row(note: Note, schema: pa.Schema) -> pa.RecordBatch:
    values = {"part": note.part, "note": note.to_bytes()}
    return pa.RecordBatch.from_pylist([values], schema=schema)


def _with(keys: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [*keys.columns, pa.nulls(keys.num_rows, _NOTE.type)], schema=schema
    )


def _joined(found: Found) -> pa.RecordBatch:
    rest = [found.events.column(field.name) for field in _REST]
    nothing = pa.nulls(found.keys.num_rows, _NOTE.type)
    return pa.RecordBatch.from_arrays([*found.keys.columns, *rest, nothing], schema=RETURNED)
