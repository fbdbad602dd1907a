"""The packets of the connection monitor; `docs/protocols/monitor.md` has their bytes.

The first bit of a packet is set if it is one of the monitor. So packets of the layer above pass
through unchanged.
"""

from __future__ import annotations

import re
import struct
from typing import Final, NamedTuple, TypeAlias
from zlib import crc32

from broker.errors import ProtocolError

VERSION: Final = 1
#: Packets of the layer above begin with a smaller byte.
FIRST_KIND: Final = b"\x80"
MAX_OFFER_BYTES: Final = 64 * 1024
MAX_REASON: Final = 32

_START = struct.Struct(">BI")
_HELLO = struct.Struct(">BQ")
_HEARTBEAT = struct.Struct(">QQQQqq")
_NUMBER = struct.Struct(">I")
_REASON = re.compile(rb"[a-z -]{0,%d}" % MAX_REASON)


class Hello(NamedTuple):
    """First packet of each end on a connection."""

    incarnation: int
    version: int = VERSION


class Heartbeat(NamedTuple):
    number: int
    """Packets sent on this connection, with this one."""
    reads: int
    """Reads of this connection, also of a part of a packet: it rises while anything arrives."""
    echo: int
    """Number of the last heartbeat received; 0: none."""
    waited: int
    """Microseconds between that heartbeat and this one."""
    arrived: int
    """Site clock at the arrival of that heartbeat, in microseconds."""
    clock: int
    """Site clock now, in microseconds."""
    reason: str = ""
    """Reason for which the sender suspects the receiver; empty: it does not."""


class Offer(NamedTuple):
    number: int
    """Count of offers on this connection."""
    data: bytes


class Answer(NamedTuple):
    number: int
    """Number of the offer."""
    data: bytes


Packet: TypeAlias = Hello | Heartbeat | Offer | Answer
_HELLO_KIND, _HEARTBEAT_KIND, _OFFER_KIND, _ANSWER_KIND = 0x81, 0x82, 0x83, 0x84


def encode(packet: Packet) -> bytes:
    match packet:
        case Hello(incarnation, version):
            kind, body = _HELLO_KIND, _HELLO.pack(version, incarnation)
        case Heartbeat():
            kind = _HEARTBEAT_KIND
            body = _HEARTBEAT.pack(*packet[:-1]) + packet.reason.encode()
        case Offer(number, data):
            kind, body = _OFFER_KIND, _NUMBER.pack(number) + data
        case Answer(number, data):
            kind, body = _ANSWER_KIND, _NUMBER.pack(number) + data
    return _START.pack(kind, crc32(body, kind)) + body


def decode(packet: bytes) -> Packet:
    """Decode a packet of the monitor. Of another version's HELLO only the version counts.

    Raises `ProtocolError`.
    """
    size = len(packet)
    if size < _START.size:
        raise ProtocolError(f"a packet of {size} bytes is too short")
    kind, check = _START.unpack_from(packet)
    body = packet[_START.size :]
    if crc32(body, kind) != check:
        raise ProtocolError(f"a packet of {size} bytes fails its check")
    if kind == _HELLO_KIND:
        return _decode_hello(body)
    if kind == _HEARTBEAT_KIND:
        return _decode_heartbeat(body)
    if kind not in (_OFFER_KIND, _ANSWER_KIND):
        raise ProtocolError(f"a packet has the unknown kind {kind}")
    if not _NUMBER.size <= len(body) <= _NUMBER.size + MAX_OFFER_BYTES:
        raise ProtocolError(f"an offer or answer has {size} bytes")
    (number,) = _NUMBER.unpack_from(body)
    return (Offer if kind == _OFFER_KIND else Answer)(number, body[_NUMBER.size :])


def _decode_hello(body: bytes) -> Hello:
    if body and body[0] != VERSION:
        return Hello(0, body[0])
    if len(body) != _HELLO.size:
        raise ProtocolError(f"HELLO has {len(body)} bytes behind its check")
    version, incarnation = _HELLO.unpack(body)
    if incarnation == 0:
        raise ProtocolError("HELLO has the incarnation 0")
    return Hello(incarnation, version)


def _decode_heartbeat(body: bytes) -> Heartbeat:
    if len(body) < _HEARTBEAT.size:
        raise ProtocolError(f"HEARTBEAT has {len(body)} bytes behind its check")
    reason = body[_HEARTBEAT.size :]
    if not _REASON.fullmatch(reason):
        raise ProtocolError("HEARTBEAT has an invalid reason")
    return Heartbeat(*_HEARTBEAT.unpack_from(body))._replace(reason=reason.decode())
