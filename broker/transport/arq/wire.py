"""The datagrams of connections and groups: bytes, and what they say.

Every datagram starts with its kind (u8) and an id (u64), and ends with a tag of 8 bytes
(`seal`). Numbers are unsigned and big-endian. `docs/protocols/arq.md` has the table.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from typing import TypeAlias

import attrs

from broker.errors import ProtocolError
from broker.transport.arq.mac import TAG_BYTES

VERSION = 1

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
_DATA = struct.Struct(">BQQHI")
_FEEDBACK = struct.Struct(">BQQQQQIH")
_NUMBERED = struct.Struct(">BQQ")
_CODED = struct.Struct(">BQB")
_RANGE = struct.Struct(">HH")

#: What a datagram of DATA carries beside the packets.
DATA_OVERHEAD = _DATA.size + TAG_BYTES
#: No packet begins in this datagram.
NO_START = 0xFFFF
#: Ranges in one FEEDBACK or ASK, at most: it fits into the smallest datagram.
MAX_RANGES = 48
#: No datagram is shorter.
MIN_DATAGRAM_BYTES = _HEAD.size + TAG_BYTES

#: First number and how many.
Range: TypeAlias = tuple[int, int]


class Reason(enum.IntEnum):
    """Why a connection is over, or never was."""

    #: Everything was received, and the other end had closed.
    DONE = 0
    #: The other end gave the connection up.
    RESET = 1
    #: There are as many connections as there may be.
    FULL = 2
    #: The other end speaks another version.
    VERSION = 3


@attrs.frozen
class Data:
    """A piece of the stream of packets."""

    number: int
    #: Where the first packet starts that begins in `piece`; `NO_START` if none does.
    start: int
    #: The number of that packet, modulo 2**32.
    packet: int
    piece: bytes


@attrs.frozen
class Feedback:
    """What a receiver has, wants and takes."""

    #: All up to this number are there.
    received: int
    #: Up to this number there is room.
    limit: int
    #: The highest number that came, and the seconds since then.
    highest: int
    delay: float
    #: How many datagrams of DATA had come when it came, each as often as it did.
    datagrams_received: int
    missing: tuple[Range, ...] = ()


def decode_head(datagram: bytes) -> tuple[int, int]:
    """Kind and id of a datagram of at least `LEAST_BYTES`."""
    kind, identity = _HEAD.unpack_from(datagram)
    return kind, identity


def contents_of(datagram: bytes) -> bytes:
    """What lies between head and tag."""
    return datagram[_HEAD.size : -TAG_BYTES]


def encode_plain(kind: int, identity: int, contents: bytes) -> bytes:
    """A datagram without its tag whose contents have no structure here."""
    return _HEAD.pack(kind, identity) + contents


def encode_data(
    identity: int, number: int, start: int, packet: int, pieces: Sequence[bytes]
) -> bytes:
    """DATA, without its tag."""
    return _DATA.pack(DATA, identity, number, start, packet & 0xFFFFFFFF) + b"".join(pieces)


def decode_data(datagram: bytes) -> Data:
    """A DATA datagram that was checked. Raises `ProtocolError`."""
    if len(datagram) <= DATA_OVERHEAD - 1:
        raise ProtocolError(f"DATA of {len(datagram)} bytes")
    _, _, number, start, packet = _DATA.unpack_from(datagram)
    piece = datagram[_DATA.size : -TAG_BYTES]
    if start != NO_START and start >= len(piece):
        raise ProtocolError(f"DATA of {len(piece)} bytes where a packet begins at {start}")
    return Data(number, start, packet, piece)


def encode_feedback(identity: int, said: Feedback) -> bytes:
    """FEEDBACK, without its tag. Of the ranges the first `MOST_RANGES` go."""
    return _FEEDBACK.pack(
        *(FEEDBACK, identity, said.received, said.limit, said.highest, said.datagrams_received),
        min(int(said.delay * 1e6), 0xFFFFFFFF),
        min(len(said.missing), MAX_RANGES),
    ) + _encode_ranges(said.received, said.missing)


def decode_feedback(datagram: bytes) -> Feedback:
    """A FEEDBACK datagram that was checked. Raises `ProtocolError`."""
    if len(datagram) < _FEEDBACK.size + TAG_BYTES:
        raise ProtocolError(f"FEEDBACK of {len(datagram)} bytes")
    _, _, received, limit, newest, arrived, held, count = _FEEDBACK.unpack_from(datagram)
    missing = _decode_ranges(datagram[_FEEDBACK.size : -TAG_BYTES], count, received)
    if limit < received or newest < received:
        raise ProtocolError("FEEDBACK that contradicts itself")
    return Feedback(received, limit, newest, held / 1e6, arrived, missing)


def encode_numbered(kind: int, identity: int, number: int, contents: bytes = b"") -> bytes:
    """POLL, ANNOUNCE or GONE, without its tag."""
    return _NUMBERED.pack(kind, identity, number) + contents


def decode_numbered(datagram: bytes) -> tuple[int, bytes]:
    """The number of a checked POLL, ANNOUNCE or GONE, and what follows. Raises `ProtocolError`."""
    if len(datagram) < _NUMBERED.size + TAG_BYTES:
        raise ProtocolError(f"a datagram of {len(datagram)} bytes without its number")
    return _NUMBERED.unpack_from(datagram)[2], datagram[_NUMBERED.size : -TAG_BYTES]


def encode_bye(identity: int, reason: Reason) -> bytes:
    """BYE, without its tag."""
    return _CODED.pack(BYE, identity, reason)


def encode_refuse(identity: int, reason: Reason) -> bytes:
    """REFUSE, without its tag."""
    return _CODED.pack(REFUSE, identity, reason)


def decode_reason(datagram: bytes) -> Reason:
    """Why: of a checked BYE or REFUSE. Raises `ProtocolError`."""
    if len(datagram) != _CODED.size + TAG_BYTES or datagram[_HEAD.size] > max(Reason):
        raise ProtocolError("a BYE or REFUSE that gives no reason")
    return Reason(datagram[_HEAD.size])


def encode_ask(identity: int, received: int, missing: Sequence[Range]) -> bytes:
    """ASK, without its tag. Of the ranges the first `MOST_RANGES` go."""
    return _NUMBERED.pack(ASK, identity, received) + _encode_ranges(received, missing)


def decode_ask(datagram: bytes) -> tuple[Range, ...]:
    """The ranges that a checked ASK wants. Raises `ProtocolError`."""
    received, ranges = decode_numbered(datagram)
    return _decode_ranges(ranges, len(ranges) // _RANGE.size, received)


def _encode_ranges(base: int, missing: Sequence[Range]) -> bytes:
    return b"".join(_RANGE.pack(first - base, count) for first, count in missing[:MAX_RANGES])


def _decode_ranges(packed: bytes, count: int, base: int) -> tuple[Range, ...]:
    if len(packed) != count * _RANGE.size or count > MAX_RANGES:
        raise ProtocolError(f"{count} ranges in {len(packed)} bytes")
    ranges = tuple((base + first, number) for first, number in _RANGE.iter_unpack(packed))
    if any(first == base or not number for first, number in ranges):
        raise ProtocolError("a range that wants nothing")
    return ranges
