from __future__ import annotations

import attrs
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.archive.document_digest import digest_of
from broker.archive.table import (
    FILE_SCHEMAS,
    SCHEMA,
    batch_to_events,
    complete_columns,
    events_to_batch,
    file_schema_of,
    is_archive_schema,
)
from broker.errors import ArchiveCorrupt
from broker.event.annotation import with_annotation
from broker.event.envelope import MAX_EVENT_TIME, Header, Liveness, SecurityLevel, Validation
from broker.event.event_id import EventId
from broker.event.order_entry import OrderEntry, encode_order_entry
from broker.event.record import MAX_ANNOTATION_BYTES
from broker.log.logged_event import LoggedEvent, encode_header
from tests.archive.events import events, same

_TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
_NUMBER = st.integers(0, 2**63 - 1)
_LEVEL = st.sampled_from(sorted(SecurityLevel))


@st.composite
def logged(draw: st.DrawFn) -> LoggedEvent:
    level = draw(_LEVEL)
    header = Header(
        EventId(draw(_TEXT), draw(_NUMBER), draw(_NUMBER), draw(_NUMBER)),
        *(draw(_TEXT), draw(_TEXT), draw(_TEXT), level, draw(st.sampled_from(Liveness))),
        draw(st.sampled_from(Validation)),
        draw(st.none() | st.integers(0, MAX_EVENT_TIME)),
    )
    return LoggedEvent(
        *(draw(st.integers(0, 2**32 - 1)), draw(_NUMBER), draw(_NUMBER), level.rank),
        with_annotation(encode_header(header), draw(st.binary(max_size=3))),
        *(draw(st.binary(max_size=40)), draw(_TEXT), 0),
    )


@given(st.lists(logged(), max_size=6))
def test_events_are_restored_byte_for_byte(made: list[LoggedEvent]) -> None:
    batch = events_to_batch(made)
    batch.validate(full=True)
    assert batch.schema == SCHEMA
    assert same(batch_to_events(batch), made)
    assert batch.column("digest").to_pylist() == [digest_of(each.document) for each in made]


def test_a_slice_of_a_batch_is_decoded() -> None:
    made = events(range(1, 10))
    assert same(batch_to_events(events_to_batch(made).slice(2, 3)), made[2:5])


@pytest.mark.parametrize("record", [b"", b"\x01", b"\x93\x01\x02\x03", encode_header.__doc__])
def test_an_invalid_record_is_rejected(record: bytes | str) -> None:
    made = events([1, 2])
    made[1].record = record if isinstance(record, bytes) else record.encode()
    with pytest.raises((ValueError, TypeError)):
        events_to_batch(made)


@pytest.mark.parametrize(("column", "value"), [("level", 3), ("liveness", 6), ("level", -4)])
def test_an_invalid_row_raises_archive_corrupt(column: str, value: int) -> None:
    batch = events_to_batch(events([1]))
    index = SCHEMA.get_field_index(column)
    damaged = batch.set_column(index, SCHEMA.field(index), pa.array([value], pa.int8()))
    with pytest.raises(ArchiveCorrupt):
        batch_to_events(damaged)


@pytest.mark.parametrize("time", [-1, MAX_EVENT_TIME + 1])
def test_a_time_out_of_range_raises_archive_corrupt(time: int) -> None:
    batch = events_to_batch(events([1]))
    index = SCHEMA.get_field_index("time")
    damaged = batch.set_column(index, SCHEMA.field(index), pa.array([time], pa.int64()))
    with pytest.raises(ArchiveCorrupt, match="time"):
        batch_to_events(damaged)


@pytest.mark.parametrize("annotation", [b"a", bytes(MAX_ANNOTATION_BYTES)])
def test_only_annotated_events_have_a_value_in_the_column(annotation: bytes) -> None:
    made = events([1, 2, 3])
    made[1].record = with_annotation(made[1].record, annotation)
    assert events_to_batch(made).column("annotation").to_pylist() == [None, annotation, None]
    assert events_to_batch(events([1])).column("annotation").to_pylist() == [None]


def test_rows_without_the_column_are_completed() -> None:
    batch = events_to_batch(events([1, 2]))
    for schema in FILE_SCHEMAS[:-1]:
        old = batch.select(schema.names)
        assert is_archive_schema(old.schema)
        assert same(batch_to_events(old), events([1, 2]))
        assert complete_columns(old).equals(batch) and complete_columns(batch) is batch
        assert complete_columns(old).schema == SCHEMA == FILE_SCHEMAS[-1]


def test_only_events_with_a_stamp_have_values_in_the_columns_of_the_stack() -> None:
    entry = OrderEntry("ops", "site-b", 7, 1, -(2**63), "logical")
    annotations = [b"other", encode_order_entry(entry)]
    annotations.append(encode_order_entry(attrs.evolve(entry, stamp=None)))
    made = events([1, 2, 3, 4])
    for event, annotation in zip(made[1:], annotations, strict=True):
        event.record = with_annotation(event.record, annotation)
    batch = events_to_batch(made)
    assert same(batch_to_events(batch), made)
    columns = [batch.column(n).to_pylist() for n in ("stack", "stack_order", "stack_site")]
    stamped = ("ops", -(2**63), "site-b")
    assert columns == [[None, None, value, None] for value in stamped]
    table = pa.Table.from_batches([batch])
    schemas = [file_schema_of(table.slice(0, count)) for count in range(1, 5)]
    assert schemas == [FILE_SCHEMAS[number] for number in (0, 1, 2, 2)]


def test_a_too_long_annotation_raises_archive_corrupt() -> None:
    batch = events_to_batch(events([1]))
    index = SCHEMA.get_field_index("annotation")
    value = pa.array([bytes(MAX_ANNOTATION_BYTES + 1)], pa.binary())
    with pytest.raises(ArchiveCorrupt):
        batch_to_events(batch.set_column(index, SCHEMA.field(index), value))
