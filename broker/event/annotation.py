"""Annotation of an event: bytes of its stream transport, the optional tenth element of its record.

A record is the header as a msgpack array of nine elements (`broker.log.logged_event`). The log,
pages, replicas and the archive have the annotations with the events. Only the transport reads them,
but for those that are order entries (`broker.event.order_entry`): clients get these. Nodes and
clients of earlier versions get records of nine elements.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgpack
import msgspec

#: Elements of a record without an annotation.
RECORD_FIELDS: Final = 9
MAX_ANNOTATION_BYTES: Final = 1_024
#: First byte of a record with an annotation. It may occur inside of others too.
ANNOTATED: Final = b"\x9a"
_PLAIN: Final = b"\x99"
#: Followed by the length, before at most 255 bytes.
_BIN8: Final = 0xC4
_pack = msgpack.Packer().pack

_Annotation: TypeAlias = Annotated[bytes, msgspec.Meta(max_length=MAX_ANNOTATION_BYTES)]
_Fields: TypeAlias = tuple[str, int, int, int, str, str, str, str, str, _Annotation]
_decoder = msgspec.msgpack.Decoder(_Fields)


def annotation_of(record: bytes) -> bytes:
    """Return the annotation; empty if there is none, or the record is malformed."""
    fields = _annotated_fields(record)
    return b"" if fields is None else fields[RECORD_FIELDS]


def with_annotation(record: bytes, annotation: bytes) -> bytes:
    """Return a record with this annotation; none if it is empty.

    A malformed record is not changed. Raises ValueError for more than `MAX_ANNOTATION_BYTES`.
    """
    if not isinstance(annotation, bytes) or len(annotation) > MAX_ANNOTATION_BYTES:
        raise ValueError(f"an annotation is not at most {MAX_ANNOTATION_BYTES} bytes")
    if not record.startswith(_PLAIN):
        record = without_annotation(record)
    if not annotation or not record.startswith(_PLAIN):
        return record
    packed: bytes = _pack(annotation)
    return b"".join((ANNOTATED, record[1:], packed))


def copy_annotation(received: bytes, record: bytes) -> bytes:
    """Return a plain record with the annotation of a received record, if that has one."""
    end = len(record)
    length = len(received) - end - 2
    if (
        0 < length <= 0xFF
        and received.startswith(ANNOTATED)
        and received[1 : end + 2] == record[1:] + bytes((_BIN8, length))
    ):
        # The header is the same, and the annotation is all the rest.
        return received
    annotation = annotation_of(received)
    return with_annotation(record, annotation) if annotation else record


def without_annotation(record: bytes) -> bytes:
    """Return a record of nine elements. A malformed record is not changed."""
    return split_annotation(record)[0]


def split_annotation(record: bytes) -> tuple[bytes, bytes]:
    """Return the record of nine elements, and the annotation; empty if there is none.

    A malformed record is not changed.
    """
    fields = _annotated_fields(record)
    if fields is None:
        return record, b""
    annotation = fields[RECORD_FIELDS]
    packed: bytes = _pack(annotation)
    if record.endswith(packed):
        return _PLAIN + record[1 : -len(packed)], annotation
    # Its length is in more bytes than it needs.
    plain: bytes = _pack(fields[:RECORD_FIELDS])
    return plain, annotation


def _annotated_fields(record: bytes) -> _Fields | None:
    """Return the fields of a record with an annotation, else None."""
    if not record.startswith(ANNOTATED):
        return None
    try:
        fields: _Fields = _decoder.decode(record)
    except (msgspec.MsgspecError, ValueError):
        return None
    return fields
