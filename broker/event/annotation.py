"""Annotation of an event: bytes of its stream transport, the tenth element of its record.

Only the transport reads annotations, but for those that are order entries
(`broker.event.order_entry`): clients get these. `broker.event.record` has the bytes.
"""

from __future__ import annotations

from broker.event.record import (
    MAX_ANNOTATION_BYTES,
    join_record,
    split_record,
)


def annotation_of(record: bytes) -> bytes:
    """Return the annotation; empty if there is none, or the record is malformed."""
    return split_record(record)[1]


def with_annotation(record: bytes, annotation: bytes) -> bytes:
    """Return a record with this annotation; none if it is empty. The proof stays.

    A malformed record is not changed. Raises ValueError for more than `MAX_ANNOTATION_BYTES`.
    """
    if not isinstance(annotation, bytes):
        raise ValueError(f"an annotation is not at most {MAX_ANNOTATION_BYTES} bytes")
    plain, _, proof = split_record(record)
    return join_record(plain, annotation, proof)


def without_annotation(record: bytes) -> bytes:
    """Return a record of nine elements. A malformed record is not changed."""
    return split_record(record)[0]
