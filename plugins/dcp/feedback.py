"""Bodies of acknowledgements, keep-alives and NACKs (DCP D43-D54)."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, TypeAlias

from broker.errors import ProtocolError
from plugins.dcp.parts import MissingParts
from plugins.dcp.receiver import MOST_LISTED, Nack

_END: Final = struct.Struct(">HQ")
_SPAN: Final = struct.Struct(">QQ")
_COUNTS: Final = struct.Struct(">BH")
_NUMBER: Final = struct.Struct(">H")
#: Places in one acknowledgement or keep-alive.
MOST_ENDS: Final = 100

#: Index of a sequence, and an AN in it.
End: TypeAlias = tuple[int, int]


def encode_ends(ends: Iterable[End]) -> bytes:
    return b"".join([_END.pack(*each) for each in ends])


def decode_ends(body: bytes) -> list[End]:
    """Raises `ProtocolError`."""
    if len(body) % _END.size or len(body) > MOST_ENDS * _END.size:
        raise ProtocolError(f"{len(body)} bytes of places")
    return [(index, an) for index, an in _END.iter_unpack(body)]


def encode_nack(nack: Nack, missing: MissingParts | None) -> bytes:
    numbers = () if missing is None else missing.numbers
    pieces = [_COUNTS.pack(len(nack.held), len(numbers))]
    pieces += [_SPAN.pack(*span) for span in nack.held]
    if missing is not None and numbers:
        pieces.append(_SPAN.pack(missing.previous, missing.upto))
        pieces += [_NUMBER.pack(each) for each in numbers]
    return b"".join(pieces)


def decode_nack(current: int, body: bytes) -> tuple[Nack, MissingParts | None]:
    """Raises `ProtocolError`."""
    try:
        held_count, part_count = _COUNTS.unpack_from(body)
        if held_count > MOST_LISTED:
            raise ProtocolError(f"a NACK with {held_count} ranges")
        places = range(_COUNTS.size, len(body), _SPAN.size)
        spans = [_SPAN.unpack_from(body, each) for each in places[: held_count + bool(part_count)]]
        if len(spans) != held_count + bool(part_count):
            raise ProtocolError(f"a NACK of {len(body)} bytes")
        if not part_count:
            return Nack(current, spans), None
        begin = _COUNTS.size + len(spans) * _SPAN.size
        if len(body) != begin + part_count * _NUMBER.size:
            raise ProtocolError(f"a NACK of {len(body)} bytes")
        numbers = _NUMBER.iter_unpack(body[begin : begin + part_count * _NUMBER.size])
        previous, upto = spans[held_count]
        missing = MissingParts(previous, upto, [each for (each,) in numbers])
        return Nack(current, spans[:held_count]), missing
    except (struct.error, IndexError) as error:
        raise ProtocolError(f"a NACK of {len(body)} bytes: {error}") from None
