"""Conversion of events to columns and back, without an Arrow object per event.

Records are not stored: `encode_records` makes the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from itertools import accumulate, groupby, pairwise, repeat
from operator import attrgetter
from typing import Any, Final

import msgpack
import numpy as np
import pyarrow as pa

from broker.archive.document_digest import DIGEST_BYTES, column_of, digest_column
from broker.archive.row_signing import Proofs, complete_proofs
from broker.errors import ArchiveCorrupt
from broker.event.envelope import Liveness, SecurityLevel
from broker.event.order_entry import decode_order_entry
from broker.event.record import (
    ALL_FIELDS,
    ANNOTATED_FIELDS,
    LENGTH_BYTES,
    RECORD_FIELDS,
    join_record,
    split_record,
)
from broker.log.logged_event import (
    HEADER_STATES,
    LoggedEvent,
    decode_state,
    encode_fields,
    join_time,
    split_time,
)
from broker.signatures.batch_signer import BatchSigner

_NAMES: Final = pa.dictionary(pa.int32(), pa.string())
SCHEMA: Final = pa.schema(
    [
        pa.field("origin", _NAMES, nullable=False),
        pa.field("epoch", pa.uint32(), nullable=False),
        # Signed: Spark reads unsigned values as decimals, and numpy adds them to floats.
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("arrival", pa.int64(), nullable=False),
        pa.field("level", pa.int8(), nullable=False),
        pa.field("client", _NAMES, nullable=False),
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("sequence", pa.int64(), nullable=False),
        pa.field("incarnation", pa.int64(), nullable=False),
        pa.field("stream", _NAMES, nullable=False),
        pa.field("type", _NAMES, nullable=False),
        pa.field("version", _NAMES, nullable=False),
        pa.field("liveness", pa.int8(), nullable=False),
        pa.field("stack", _NAMES),
        pa.field("stack_order", pa.int64()),
        pa.field("digest", pa.binary(DIGEST_BYTES), nullable=False),
        pa.field("document", pa.binary(), nullable=False),
        # Bytes of the event's transport (`broker.event.annotation`).
        pa.field("annotation", pa.binary()),
        # With `stack` and `stack_order`: the stamp of an order entry (`broker.event.order_entry`).
        pa.field("stack_site", _NAMES),
        # Proof of the origin's signature (`broker.signatures`).
        pa.field("proof", pa.binary()),
        # The event's own time, ms since 1970.
        pa.field("time", pa.int64()),
    ]
)
#: A file has the first of these columns, up to the last one in which an event has a value.
OPTIONAL_COLUMNS: Final = ("annotation", "stack_site", "proof", "time")
#: Of files without, with one, and with more.
FILE_SCHEMAS: Final = tuple(
    pa.schema(list(SCHEMA)[: len(SCHEMA) - absent])
    for absent in reversed(range(len(OPTIONAL_COLUMNS) + 1))
)
PLACE_COLUMNS: Final = ("origin", "epoch", "offset")
ID_COLUMNS: Final = ("client", "timestamp", "sequence", "incarnation")

_LEVELS: Final = dict(enumerate(level.value for level in sorted(SecurityLevel)))
_LIVENESS: Final = dict(
    enumerate(
        (
            *(Liveness.LIVE.value, Liveness.RECOVERY.value),
            *(each for each in HEADER_STATES if " " in each),
        )
    )
)
#: By the column "liveness".
VALIDATIONS: Final = {number: decode_state(text)[1] for number, text in _LIVENESS.items()}
_LIVENESS_NUMBER: Final = {text: number for number, text in _LIVENESS.items()}

_record = attrgetter("record")
_document = attrgetter("document")
_origin = attrgetter("origin")


def events_to_batch(
    events: Sequence[LoggedEvent], signer: BatchSigner | None = None
) -> pa.RecordBatch:
    """Convert events without their serials. Raises ValueError for an invalid record.

    `signer` signs those that have no proof; then all are of its log.
    """
    records, documents = list(map(_record, events)), list(map(_document, events))
    return columns_to_batch(
        origins=[(name, len(list(run))) for name, run in groupby(map(_origin, events))],
        epochs=_number_array(events, attrgetter("epoch"), np.uint32),
        offsets=_number_array(events, attrgetter("offset"), np.int64),
        arrivals=_number_array(events, attrgetter("arrival"), np.int64),
        levels=_number_array(events, attrgetter("level"), np.int8),
        records=b"".join(records),
        record_ends=_ends(records),
        pieces=documents,
        ends=_ends(documents),
        documents=b"".join(documents),
        signer=signer,
    )


def columns_to_batch(
    *,
    origins: Sequence[tuple[str, int]],
    epochs: Any,
    offsets: Any,
    arrivals: Any,
    levels: Any,
    records: bytes,
    record_ends: Any,
    pieces: Sequence[bytes | memoryview],
    ends: Any,
    documents: bytes,
    signer: BatchSigner | None = None,
) -> pa.RecordBatch:
    """Build rows from numpy columns.

    `origins` is run-length encoded. `records` are concatenated, `documents` also separate, as
    `pieces`; `record_ends` and `ends` have a 0 and then the end of each. `signer` signs the events
    that have no proof.
    """
    count = len(offsets)
    columns, annotations, proofs = _decode_records(records, count)
    client, timestamp, sequence, incarnation, stream, kind, version, _, states = columns
    liveness, times = _state_columns(states)
    stacks, stack_orders, stack_sites = _stack_columns(annotations, count)
    if signer is None:
        digests = digest_column(pieces, proofs)
    else:
        hashes = [sha256(each).digest() for each in pieces]
        plain = [records[start:end] for start, end in pairwise(record_ends.tolist())]
        if annotations is not None:
            plain = [split_record(each)[0] for each in plain]
        proofs = complete_proofs(proofs, signer, (epochs, offsets), plain, pieces, hashes)
        digests = column_of(hashes)
    return pa.RecordBatch.from_arrays(
        [
            _expand_origins(origins),
            *map(pa.array, (epochs, offsets, arrivals, levels)),
            pa.array(client, _NAMES),
            *(_integer_column(each, np.int64) for each in (timestamp, sequence, incarnation)),
            *(pa.array(each, _NAMES) for each in (stream, kind, version)),
            _integer_column(liveness, np.int8),
            *(stacks, stack_orders),
            digests,
            _document_column(documents, ends),
            pa.array(annotations, pa.binary()) if annotations else pa.nulls(count, pa.binary()),
            stack_sites,
            pa.array(proofs, pa.binary()) if proofs else pa.nulls(count, pa.binary()),
            times,
        ],
        schema=SCHEMA,
    )


def _state_columns(states: Sequence[str]) -> tuple[list[int], pa.Array]:
    """Return `liveness` and `time`. Raises KeyError or TypeError."""
    if _LIVENESS_NUMBER.keys() >= set(states):
        return list(map(_LIVENESS_NUMBER.__getitem__, states)), pa.nulls(len(states), pa.int64())
    texts, times = zip(*map(split_time, states), strict=True)
    return list(map(_LIVENESS_NUMBER.__getitem__, texts)), pa.array(times, pa.int64())


def _stack_columns(annotations: Sequence[bytes | None] | None, count: int) -> list[pa.Array]:
    """Return `stack`, `stack_order` and `stack_site`. They are null without a stamp."""
    kinds = (_NAMES, pa.int64(), _NAMES)
    if annotations is None:
        return [pa.nulls(count, kind) for kind in kinds]
    stamps: list[tuple[str | None, int | None, str | None]] = []
    for annotation in annotations:
        entry = None if annotation is None else decode_order_entry(annotation)
        if entry is None or entry.stamp is None:
            stamps.append((None, None, None))
        else:
            stamps.append((entry.stack, entry.stamp, entry.tie or entry.site))
    columns = zip(*stamps, strict=True)
    return [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]


def batch_to_events(batch: pa.RecordBatch) -> list[LoggedEvent]:
    """Return events with the serial 0.

    `digest` and the columns of the stack are not needed. Raises `ArchiveCorrupt`.
    """
    try:
        return list(
            map(
                LoggedEvent,
                *(column_values(batch, name) for name in ("epoch", "offset", "arrival", "level")),
                *(
                    encode_records(batch),
                    column_values(batch, "document"),
                    column_values(batch, "origin"),
                ),
                repeat(0),
            )
        )
    except (KeyError, TypeError, ValueError) as error:
        raise corrupt_row_error(error) from None


def encode_records(batch: pa.RecordBatch) -> Iterator[bytes]:
    """`annotation`, `proof` and `time` may be absent. Raises KeyError, TypeError or ValueError."""
    states = map(_LIVENESS.__getitem__, column_values(batch, "liveness"))
    if has_values(batch, "time"):
        states = map(join_time, states, batch.column("time").to_pylist())
    records: Iterator[bytes] = map(
        encode_fields,
        zip(
            *(column_values(batch, name) for name in (*ID_COLUMNS, "stream", "type", "version")),
            map(_LEVELS.__getitem__, column_values(batch, "level")),
            states,
            strict=True,
        ),
    )
    found = [_optional_bytes(batch, name) for name in ("annotation", "proof")]
    return records if found == [None, None] else map(join_record, records, *map(_or_empty, found))


def _optional_bytes(batch: pa.RecordBatch, name: str) -> list[bytes | None] | None:
    return batch.column(name).to_pylist() if has_values(batch, name) else None


def _or_empty(values: list[bytes | None] | None) -> Iterator[bytes]:
    return repeat(b"") if values is None else (value or b"" for value in values)


def has_values(rows: pa.RecordBatch | pa.Table, name: str) -> bool:
    """Return True if an event has a value in a column, which may be absent."""
    if name not in rows.schema.names:
        return False
    return bool(rows.column(name).null_count < rows.num_rows)


def file_schema_of(rows: pa.Table) -> pa.Schema:
    """Return the schema of a file of these rows."""
    needed = [number for number, name in enumerate(OPTIONAL_COLUMNS, 1) if has_values(rows, name)]
    return FILE_SCHEMAS[max(needed, default=0)]


def is_archive_schema(schema: pa.Schema) -> bool:
    return any(schema.equals(each) for each in FILE_SCHEMAS)


def complete_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows of a file with all optional columns."""
    absent = [name for name in OPTIONAL_COLUMNS if name not in batch.schema.names]
    if not absent:
        return batch
    fields = [SCHEMA.field(name) for name in absent]
    columns = [*batch.columns, *(pa.nulls(batch.num_rows, field.type) for field in fields)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema([*batch.schema, *fields]))


def corrupt_row_error(error: Exception) -> ArchiveCorrupt:
    return ArchiveCorrupt(f"a row of the archive is not a valid event: {error!r}")


def column_values(batch: pa.RecordBatch, name: str) -> list[Any]:
    """Convert a column several times as fast as Arrow converts single values."""
    column = batch.column(name)
    if column.null_count:
        raise ValueError(f"{name} is null")
    if pa.types.is_dictionary(column.type):
        names = column.dictionary.to_pylist()
        return [names[index] for index in column.indices.to_numpy().tolist()]
    binary = pa.types.is_binary(column.type)
    values: list[Any] = (
        column.to_pylist() if binary else column.to_numpy(zero_copy_only=False).tolist()
    )
    return values


def _decode_records(
    records: bytes, count: int
) -> tuple[list[tuple[Any, ...]], Proofs | None, Proofs | None]:
    """Return the columns of the headers, and the annotations and proofs if there are any."""
    unpacker = msgpack.Unpacker(use_list=False, max_buffer_size=0)
    unpacker.feed(records)
    headers = list(unpacker)
    annotations = proofs = None
    sizes = set(map(len, headers))
    if not sizes <= {RECORD_FIELDS, ANNOTATED_FIELDS, ALL_FIELDS} or len(headers) != count:
        raise ValueError("a record does not have the fields of a header")
    if sizes - {RECORD_FIELDS}:
        annotations = [
            each[RECORD_FIELDS] or None if len(each) > RECORD_FIELDS else None for each in headers
        ]
        if ALL_FIELDS in sizes:
            proofs = [
                each[ANNOTATED_FIELDS][:-LENGTH_BYTES] if len(each) == ALL_FIELDS else None
                for each in headers
            ]
        headers = [each[:RECORD_FIELDS] for each in headers]
    return list(zip(*headers, strict=True)) or [()] * RECORD_FIELDS, annotations, proofs


def _expand_origins(origins: Sequence[tuple[str, int]]) -> pa.Array:
    names = list(dict(origins))
    numbers = [names.index(name) for name, _ in origins]
    indices = np.repeat(np.array(numbers, np.int32), [count for _, count in origins])
    return pa.DictionaryArray.from_arrays(pa.array(indices), pa.array(names, pa.string()))


def _number_array(
    events: Sequence[LoggedEvent], number: Callable[[LoggedEvent], int], kind: type
) -> Any:
    return np.fromiter(map(number, events), kind, len(events))


def _integer_column(values: Sequence[int], kind: type) -> pa.Array:
    try:
        return pa.array(np.fromiter(values, kind, len(values)))
    except OverflowError:
        raise ValueError("a number in a record is above 2**63 - 1") from None


def _document_column(documents: bytes, ends: Any) -> pa.Array:
    # Three times as fast as a list of bytes.
    if ends[-1] > np.iinfo(np.int32).max:
        raise ValueError("documents of more than 2 GiB do not fit into one batch")
    buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(documents)]
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, buffers)


def _ends(pieces: Sequence[bytes]) -> Any:
    return np.fromiter(accumulate(map(len, pieces), initial=0), np.int64, len(pieces) + 1)
