from __future__ import annotations

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.event.annotation import (
    MAX_ANNOTATION_BYTES,
    annotation_of,
    copy_annotation,
    split_annotation,
    with_annotation,
    without_annotation,
)
from broker.event.envelope import Header, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.log.logged_event import encode_header, header_from_fields

HEADER = Header(EventId("p", 5, 1, 7), "s.t", "t", "1.0", SecurityLevel.LOW, Liveness.LIVE)
RECORD = encode_header(HEADER)
FIELDS = msgpack.unpackb(RECORD)
ANNOTATIONS = st.binary(max_size=MAX_ANNOTATION_BYTES)
#: Bytes of records of a hostile node.
MALFORMED = [
    *(b"", b"\x9a", b"\xc1", b"no record", b"\x9a" * 5_000, RECORD[:-1], RECORD + b"x"),
    *(msgpack.packb((*FIELDS, wrong)) for wrong in ("text", 1, None, bytes(1_025))),
    msgpack.packb((*FIELDS, b"", b"")),
    b"\x9a" + RECORD[1:] + b"\xc6\xff\xff\xff\xff",
]


@given(ANNOTATIONS, ANNOTATIONS)
def test_an_annotation_is_set_replaced_and_removed(first: bytes, second: bytes) -> None:
    record = with_annotation(RECORD, first)
    assert annotation_of(record) == first
    assert annotation_of(with_annotation(record, second)) == second
    assert without_annotation(record) == with_annotation(record, b"") == RECORD
    fields = msgpack.unpackb(record)
    assert fields == [*FIELDS, *([first] if first else [])]
    assert header_from_fields(fields) == header_from_fields(tuple(fields)) == HEADER


@given(ANNOTATIONS)
def test_the_annotation_of_a_received_record_is_copied(annotation: bytes) -> None:
    received = with_annotation(RECORD, annotation)
    assert copy_annotation(received, RECORD) == received
    assert split_annotation(received) == (RECORD, annotation)
    # A node may claim another header than that of the document, or another length of a length.
    other = encode_header(HEADER._replace(stream="s.other"))
    assert copy_annotation(with_annotation(other, annotation), RECORD) == received
    size = len(annotation).to_bytes(2, "big")
    longer = b"".join((b"\x9a", RECORD[1:], b"\xc5", size, annotation))
    assert copy_annotation(longer, RECORD) == received
    assert split_annotation(longer) == (RECORD, annotation)


def test_a_record_without_an_annotation_has_its_bytes() -> None:
    assert RECORD.hex() == "99a1700501 07a3732e74a174a3312e30a36c6f77a46c697665".replace(" ", "")
    assert with_annotation(RECORD, b"") is RECORD
    assert without_annotation(RECORD) is RECORD and annotation_of(RECORD) == b""


def test_an_annotation_is_bounded() -> None:
    assert len(annotation_of(with_annotation(RECORD, bytes(1_024)))) == 1_024
    for wrong in (bytes(1_025), "text", None):
        with pytest.raises(ValueError, match="at most 1024 bytes"):
            with_annotation(RECORD, wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("record", MALFORMED)
def test_a_malformed_record_has_no_annotation(record: bytes) -> None:
    assert annotation_of(record) == b""
    assert without_annotation(record) == record
    assert annotation_of(with_annotation(record, b"a")) in (b"", b"a")
    assert copy_annotation(record, RECORD) == RECORD


@given(st.binary(max_size=60), ANNOTATIONS)
def test_any_bytes_raise_nothing(record: bytes, annotation: bytes) -> None:
    for each in (record, b"\x9a" + record, b"\x99" + record):
        annotation_of(with_annotation(each, annotation))
        without_annotation(each)


@pytest.mark.parametrize("fields", [8, 11, 12])
def test_a_header_of_another_length_is_refused(fields: int) -> None:
    with pytest.raises(ValueError, match="values"):
        header_from_fields((*FIELDS, b"", b"", b"")[:fields])
