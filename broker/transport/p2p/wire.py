"""The packets of p2p; `docs/protocols/p2p.md` has their bytes.

The check covers the message first, so that a message to many peers is checked once. A message of
version 1 was checked where it stands.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from zlib import crc32

import attrs

from broker.errors import ProtocolError
from broker.transport.shared_message import SharedMessage

VERSION = 2

RESUME = 1
DATA = 2
ACK = 3
PING = 4

#: About the overhead of a message in memory.
MESSAGE_COST = 64

_START = struct.Struct(">BI")
_RESUME = struct.Struct(">BQQQQQ")
_DATA = struct.Struct(">QQQ")
_ACK = struct.Struct(">QQ")
_PING = struct.Struct(">Q")

_FORMATS = {RESUME: _RESUME, DATA: _DATA, ACK: _ACK, PING: _PING}
_check = struct.Struct(">xI").unpack_from

NAMES = {RESUME: "RESUME", DATA: "DATA", ACK: "ACK", PING: "PING"}
DATA_HEADER = _START.size + _DATA.size


@attrs.frozen
class Resume:
    incarnation: int
    known: int
    received: int
    limit: int
    window: int
    version: int = VERSION


def encode_resume(resume: Resume) -> bytes:
    body = _RESUME.pack(
        resume.version,
        resume.incarnation,
        resume.known,
        resume.received,
        resume.limit,
        resume.window,
    )
    return _START.pack(RESUME, crc32(body, RESUME)) + body


def encode_data(first: int, received: int, limit: int, messages: Sequence[bytes]) -> list[bytes]:
    """Encode messages, numbered from `first`."""
    packets = []
    for sequence, message in enumerate(messages, first):
        body = _DATA.pack(sequence, received, limit)
        if isinstance(message, SharedMessage):
            check = message.checksum(DATA)
        else:
            check = crc32(message, DATA)
        packets.append(_START.pack(DATA, crc32(body, check)) + body + message)
    return packets


def encode_ack(received: int, limit: int) -> bytes:
    body = _ACK.pack(received, limit)
    return _START.pack(ACK, crc32(body, ACK)) + body


def encode_ping(highest: int) -> bytes:
    body = _PING.pack(highest)
    return _START.pack(PING, crc32(body, PING)) + body


def decode_packet(packet: bytes) -> tuple[int, tuple[int, ...], bytes]:
    """Return the kind, the numbers after the check, and (of DATA) the message of a packet.

    Of another version's RESUME only the version is decoded. Raises `ProtocolError`.
    """
    size = len(packet)
    if size >= DATA_HEADER and packet[0] == DATA:
        message = packet[DATA_HEADER:]
        if crc32(packet[_START.size : DATA_HEADER], crc32(message, DATA)) != _check(packet)[0]:
            raise ProtocolError(f"a packet of {size} bytes fails its check")
        return DATA, _DATA.unpack_from(packet, _START.size), message
    if size < _START.size:
        raise ProtocolError(f"a packet of {size} bytes is too short")
    kind, check = _START.unpack_from(packet)
    body = packet[_START.size :]
    if crc32(body, kind) != check:
        raise ProtocolError(f"a packet of {size} bytes fails its check")
    form = _FORMATS.get(kind)
    if form is None:
        raise ProtocolError(f"a packet has the unknown kind {kind}")
    if kind == RESUME and body and body[0] != VERSION:
        return kind, (body[0],), b""
    if len(body) != form.size:
        raise ProtocolError(f"{NAMES[kind]} has {size} bytes")
    return kind, form.unpack(body), b""


def decode_resume(fields: tuple[int, ...]) -> Resume:
    """Raises `ProtocolError`."""
    if len(fields) == 1:
        return Resume(0, 0, 0, 0, 0, version=fields[0])
    version, incarnation, known, received, limit, window = fields
    if incarnation == 0:
        raise ProtocolError("RESUME has the incarnation 0")
    return Resume(incarnation, known, received, limit, window, version)
