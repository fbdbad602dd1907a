"""The datagrams of connections and groups.

Each starts with its kind (u8) and an id (u64). A tag is at the end, which is added and removed
elsewhere. Numbers are unsigned and big-endian. `docs/protocols/arq.md` has the table.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from typing import TypeAlias

import attrs

from broker.errors import ProtocolError
from broker.transport.arq.mac import TAG_BYTES

VERSION = 2
#: Without a secret, keys of each direction, and counters.
OLD_VERSION = 1

HELLO = 1
COOKIE = 2
OPEN = 3
ACCEPT = 4
REFUSE = 5
DATA = 6
FEEDBACK = 7
POLL = 8
BYE = 9
ANNOUNCE = 10
ASK = 11
GONE = 12

NONCE_BYTES = 16
COOKIE_BYTES = 24

_HEAD = struct.Struct(">BQ")
HEAD_BYTES = _HEAD.size
_DATA = struct.Struct(">BQQHI")
_FEEDBACK = struct.Struct(">BQQQQQIH")
_NUMBERED = struct.Struct(">BQQ")
_CODED = struct.Struct(">BQB")
_RANGE = struct.Struct(">HH")

#: Bytes around the piece of a DATA, without the tag.
DATA_OVERHEAD = _DATA.size
#: No packet begins in the datagram.
NO_START = 0xFFFF
#: They fit into the smallest datagram.
MAX_RANGES = 48
MIN_DATAGRAM_BYTES = _HEAD.size + TAG_BYTES

#: First number and count.
Range: TypeAlias = tuple[int, int]


class Reason(enum.IntEnum):
    #: Everything was received after the other end had closed.
    DONE = 0
    RESET = 1
    FULL = 2
    VERSION = 3
    #: The OPEN has no tag by the secret of the listener.
    SECRET = 4


@attrs.frozen
class Data:
    number: int
    #: Of the first packet in `piece`.
    start: int
    #: Number modulo 2**32.
    packet: int
    piece: bytes


@attrs.frozen
class Feedback:
    #: Highest number up to which all have arrived.
    received: int
    #: Highest number for which there is room.
    limit: int
    #: Highest number received, and the seconds since then.
    highest: int
    delay: float
    #: Counted when that one came, with repetitions.
    datagrams_received: int
    missing: tuple[Range, ...] = ()


def decode_head(datagram: bytes) -> tuple[int, int]:
    """Return kind and id; the datagram has at least `MIN_DATAGRAM_BYTES`."""
    kind, identity = _HEAD.unpack_from(datagram)
    return kind, identity


def contents_of(datagram: bytes) -> bytes:
    """Return the bytes behind the head."""
    return datagram[_HEAD.size :]


def encode_plain(kind: int, identity: int, contents: bytes) -> bytes:
    return _HEAD.pack(kind, identity) + contents


def encode_data(
    identity: int, number: int, start: int, packet: int, pieces: Sequence[bytes]
) -> bytes:
    return _DATA.pack(DATA, identity, number, start, packet & 0xFFFFFFFF) + b"".join(pieces)


def decode_data(datagram: bytes) -> Data:
    """Raises `ProtocolError`."""
    if len(datagram) < _DATA.size:
        raise ProtocolError(f"DATA of {len(datagram)} bytes")
    _, _, number, start, packet = _DATA.unpack_from(datagram)
    piece = datagram[_DATA.size :]
    if start != NO_START and start >= len(piece):
        raise ProtocolError(f"DATA of {len(piece)} bytes with a packet start at {start}")
    return Data(number, start, packet, piece)


def encode_feedback(identity: int, content: Feedback) -> bytes:
    """With the first `MAX_RANGES` ranges."""
    return _FEEDBACK.pack(
        *(
            FEEDBACK,
            identity,
            content.received,
            content.limit,
            content.highest,
            content.datagrams_received,
        ),
        min(int(content.delay * 1e6), 0xFFFFFFFF),
        min(len(content.missing), MAX_RANGES),
    ) + _encode_ranges(content.received, content.missing)


def decode_feedback(datagram: bytes) -> Feedback:
    """Raises `ProtocolError`."""
    if len(datagram) < _FEEDBACK.size:
        raise ProtocolError(f"FEEDBACK of {len(datagram)} bytes")
    _, _, received, limit, newest, arrived, held, count = _FEEDBACK.unpack_from(datagram)
    missing = _decode_ranges(datagram[_FEEDBACK.size :], count, received)
    if limit < received or newest < received:
        raise ProtocolError("FEEDBACK with a limit or highest number below the acknowledged one")
    return Feedback(received, limit, newest, held / 1e6, arrived, missing)


def encode_numbered(kind: int, identity: int, number: int, contents: bytes = b"") -> bytes:
    return _NUMBERED.pack(kind, identity, number) + contents


def decode_numbered(datagram: bytes) -> tuple[int, bytes]:
    """Raises `ProtocolError`."""
    if len(datagram) < _NUMBERED.size:
        raise ProtocolError(f"a datagram of {len(datagram)} bytes without its number")
    return _NUMBERED.unpack_from(datagram)[2], datagram[_NUMBERED.size :]


def encode_bye(identity: int, reason: Reason) -> bytes:
    return _CODED.pack(BYE, identity, reason)


def encode_refuse(identity: int, reason: Reason) -> bytes:
    return _CODED.pack(REFUSE, identity, reason)


def decode_reason(datagram: bytes) -> Reason:
    """Raises `ProtocolError`."""
    if len(datagram) != _CODED.size or datagram[_HEAD.size] > max(Reason):
        raise ProtocolError("a BYE or REFUSE without a known reason")
    return Reason(datagram[_HEAD.size])


def encode_ask(identity: int, received: int, missing: Sequence[Range]) -> bytes:
    """With the first `MAX_RANGES` ranges."""
    return _NUMBERED.pack(ASK, identity, received) + _encode_ranges(received, missing)


def decode_ask(datagram: bytes) -> tuple[Range, ...]:
    """Raises `ProtocolError`."""
    received, ranges = decode_numbered(datagram)
    return _decode_ranges(ranges, len(ranges) // _RANGE.size, received)


def _encode_ranges(base: int, missing: Sequence[Range]) -> bytes:
    return b"".join(_RANGE.pack(first - base, count) for first, count in missing[:MAX_RANGES])


def _decode_ranges(packed: bytes, count: int, base: int) -> tuple[Range, ...]:
    if len(packed) != count * _RANGE.size or count > MAX_RANGES:
        raise ProtocolError(f"{count} ranges in {len(packed)} bytes")
    ranges = tuple((base + first, number) for first, number in _RANGE.iter_unpack(packed))
    if any(first == base or not number for first, number in ranges):
        raise ProtocolError("a range without a number")
    return ranges
