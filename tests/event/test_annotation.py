from __future__ import annotations

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.event.annotation import (
    annotation_of,
    with_annotation,
    without_annotation,
)
from broker.event.envelope import Header, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.event.record import (
    ALL_FIELDS,
    ANNOTATED_FIELDS,
    MAX_ANNOTATION_BYTES,
    MAX_PROOF_BYTES,
    RECORD_FIELDS,
    join_record,
    limit_fields,
    proof_of,
    replace_header,
    split_record,
    with_proof,
)
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
    msgpack.packb((*FIELDS, b"", bytes(MAX_PROOF_BYTES + 3))),
    msgpack.packb((*FIELDS, b"", "text")),
    msgpack.packb((*FIELDS, b"", b"proof", b"")),
    *(b"\x9b", b"\x9b\x00\x01", b"\x9b" + bytes(600)),
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
    assert replace_header(received, RECORD) == received
    assert split_record(received) == (RECORD, annotation, b"")
    # A node may claim another header than that of the document, or another length of a length.
    other = encode_header(HEADER._replace(stream="s.other"))
    assert replace_header(with_annotation(other, annotation), RECORD) == received
    size = len(annotation).to_bytes(2, "big")
    longer = b"".join((b"\x9a", RECORD[1:], b"\xc5", size, annotation))
    assert replace_header(longer, RECORD) == received
    assert split_record(longer) == (RECORD, annotation, b"")


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
    assert replace_header(record, RECORD) == RECORD


@given(st.binary(max_size=60), ANNOTATIONS)
def test_any_bytes_raise_nothing(record: bytes, annotation: bytes) -> None:
    for each in (record, b"\x9a" + record, b"\x99" + record):
        annotation_of(with_annotation(each, annotation))
        without_annotation(each)


@pytest.mark.parametrize("fields", [8, 12])
def test_a_header_of_another_length_is_refused(fields: int) -> None:
    with pytest.raises(ValueError, match="values"):
        header_from_fields((*FIELDS, b"", b"", b"")[:fields])


PROOFS = st.binary(min_size=1, max_size=MAX_PROOF_BYTES)


@given(ANNOTATIONS, PROOFS, ANNOTATIONS)
def test_a_proof_stays_while_the_annotation_changes(
    annotation: bytes, proof: bytes, other: bytes
) -> None:
    record = with_proof(with_annotation(RECORD, annotation), proof)
    assert record == with_annotation(with_proof(RECORD, proof), annotation)
    assert split_record(record) == (RECORD, annotation, proof)
    assert proof_of(record) == proof and annotation_of(record) == annotation
    assert split_record(with_annotation(record, other)) == (RECORD, other, proof)
    assert with_proof(record, b"") == with_annotation(RECORD, annotation)
    assert replace_header(record, RECORD) == record
    fields = msgpack.unpackb(record)
    assert fields[:10] == [*FIELDS, annotation] and len(fields) == 11
    assert header_from_fields(fields) == HEADER
    assert limit_fields(record, ALL_FIELDS) == record
    assert limit_fields(record, ANNOTATED_FIELDS) == with_annotation(RECORD, annotation)
    assert limit_fields(record, RECORD_FIELDS) == RECORD


@given(PROOFS, st.integers(0, 65_535))
def test_a_wrong_length_at_the_end_of_a_proof_changes_nothing(proof: bytes, length: int) -> None:
    record = with_proof(RECORD, proof)
    wrong = record[:-2] + length.to_bytes(2, "big")
    assert split_record(wrong) == (RECORD, b"", proof)
    assert replace_header(wrong, RECORD) == record


def test_a_proof_is_bounded() -> None:
    with pytest.raises(ValueError, match="at most 512 bytes"):
        join_record(RECORD, b"", bytes(MAX_PROOF_BYTES + 1))
