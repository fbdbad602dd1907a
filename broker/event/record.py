"""Record of an event: its header, the annotation of its transport, and the proof of its origin.

A record is a msgpack array. Nine elements are the header (`broker.log.logged_event`). The tenth is
the annotation (`broker.event.annotation`), and the eleventh the proof of the origin's signature
(`broker.signatures`). An empty annotation stands before a proof. The log, pages, replicas and the
archive have all elements. Nodes and clients of earlier versions get fewer.

A proof ends with the length of the last two elements. So they are removed without decoding.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgpack
import msgspec

#: Elements of a header, with an annotation, and with a proof.
RECORD_FIELDS: Final = 9
ANNOTATED_FIELDS: Final = 10
ALL_FIELDS: Final = 11
MAX_ANNOTATION_BYTES: Final = 1_024
#: Without the length at its end.
MAX_PROOF_BYTES: Final = 512
#: First byte of a record with an annotation, and with a proof. They may occur inside of others too.
ANNOTATED: Final = b"\x9a"
PROVED: Final = b"\x9b"
PLAIN: Final = b"\x99"
_BIN16 = 0xC5
_EMPTY: Final = b"\xc4\x00"
#: At the end of a proof as an element.
LENGTH_BYTES: Final = 2
#: Of an element with two bytes for its length.
_HEAD_BYTES = 3
_TAIL_HEAD: Final = _EMPTY + bytes((_BIN16,))
#: Of an empty annotation and a proof without its bytes.
_LEAST_TAIL: Final = len(_EMPTY) + _HEAD_BYTES + LENGTH_BYTES
#: Bytes before and after a proof of each length, without an annotation.
_tail_heads: Final = [
    _TAIL_HEAD + (size + LENGTH_BYTES).to_bytes(LENGTH_BYTES, "big")
    for size in range(MAX_PROOF_BYTES + 1)
]
_tail_ends: Final = [
    (_LEAST_TAIL + size).to_bytes(LENGTH_BYTES, "big") for size in range(MAX_PROOF_BYTES + 1)
]
_pack = msgpack.Packer().pack

_Annotation: TypeAlias = Annotated[bytes, msgspec.Meta(max_length=MAX_ANNOTATION_BYTES)]
_Proof: TypeAlias = Annotated[
    bytes, msgspec.Meta(min_length=LENGTH_BYTES + 1, max_length=MAX_PROOF_BYTES + LENGTH_BYTES)
]
_annotated = msgspec.msgpack.Decoder(
    tuple[str, int, int, int, str, str, str, str, str, _Annotation]
)
_proved = msgspec.msgpack.Decoder(
    tuple[str, int, int, int, str, str, str, str, str, _Annotation, _Proof]
)


def split_record(record: bytes) -> tuple[bytes, bytes, bytes]:
    """Return the record of nine elements, the annotation and the proof, empty if absent.

    A malformed record is returned unchanged.
    """
    first = record[:1]
    if first == PROVED:
        return _split_proved(record)
    if first != ANNOTATED:
        return record, b"", b""
    try:
        *header, annotation = _annotated.decode(record)
    except (msgspec.MsgspecError, ValueError):
        return record, b"", b""
    packed: bytes = _pack(annotation)
    if record.endswith(packed):
        return PLAIN + record[1 : -len(packed)], annotation, b""
    # Its length is in more bytes than it needs.
    plain: bytes = _pack(header)
    return plain, annotation, b""


def replace_header(received: bytes, plain: bytes) -> bytes:
    """Return a record of nine elements with the annotation and the proof of a received record."""
    size = len(received) - len(plain) - _LEAST_TAIL
    if (
        0 < size <= MAX_PROOF_BYTES
        and received.startswith(PROVED + plain[1:])
        and received.startswith(_tail_heads[size], len(plain))
        and received.endswith(_tail_ends[size])
    ):
        return received
    if received[:1] == PLAIN:
        return plain
    _, annotation, proof = split_record(received)
    return join_record(plain, annotation, proof)


def _tail_length(record: bytes) -> int:
    """Return the length of an empty annotation and a proof; 0 if they have another form."""
    length = record[-2] << 8 | record[-1] if len(record) > _LEAST_TAIL else 0
    size = length - _LEAST_TAIL
    if 0 < size <= MAX_PROOF_BYTES and record.startswith(_tail_heads[size], len(record) - length):
        return length
    return 0


def _split_proved(record: bytes) -> tuple[bytes, bytes, bytes]:
    if length := _tail_length(record):
        proof = record[_LEAST_TAIL - LENGTH_BYTES - length : -LENGTH_BYTES]
        return PLAIN + record[1:-length], b"", proof
    try:
        *header, annotation, proof = _proved.decode(record)
    except (msgspec.MsgspecError, ValueError):
        return record, b"", b""
    plain: bytes = _pack(header)
    return plain, annotation, proof[:-LENGTH_BYTES]


def join_record(plain: bytes, annotation: bytes = b"", proof: bytes = b"") -> bytes:
    """Return a record of a header of nine elements with the others. A malformed header is returned
    alone.

    Raises ValueError for an annotation above `MAX_ANNOTATION_BYTES` or a proof above
    `MAX_PROOF_BYTES`.
    """
    if len(annotation) > MAX_ANNOTATION_BYTES:
        raise ValueError(f"an annotation is not at most {MAX_ANNOTATION_BYTES} bytes")
    if not plain.startswith(PLAIN) or not (annotation or proof):
        return plain
    size = len(proof)
    if size > MAX_PROOF_BYTES:
        raise ValueError(f"a proof has at most {MAX_PROOF_BYTES} bytes")
    if not annotation:
        return b"".join((PROVED, plain[1:], _tail_heads[size], proof, _tail_ends[size]))
    packed: bytes = _pack(annotation)
    if not proof:
        return b"".join((ANNOTATED, plain[1:], packed))
    head = _tail_heads[size][len(_EMPTY) :]
    length = len(packed) + len(head) + size + LENGTH_BYTES
    return b"".join((PROVED, plain[1:], packed, head, proof, length.to_bytes(LENGTH_BYTES, "big")))


def proof_of(record: bytes) -> bytes:
    """Return the proof; empty if there is none, or the record is malformed."""
    return _split_proved(record)[2] if record[:1] == PROVED else b""


def around_proof(size: int) -> tuple[bytes, bytes]:
    """Return the bytes before and after a proof of `size` bytes, in a record without an
    annotation."""
    return _tail_heads[size], _tail_ends[size]


def with_proof(record: bytes, proof: bytes) -> bytes:
    """Return a record with this proof; none if it is empty. Raises ValueError."""
    if record[:1] == PLAIN:
        return join_record(record, b"", proof)
    plain, annotation, _ = split_record(record)
    return join_record(plain, annotation, proof)


def limit_fields(record: bytes, most: int) -> bytes:
    """Return a record of at most `most` elements, 9 to 11. A malformed record is not changed."""
    if most == ALL_FIELDS or record[:1] not in (ANNOTATED, PROVED):
        return record
    plain, annotation, _ = split_record(record)
    return join_record(plain, annotation) if most == ANNOTATED_FIELDS else plain
