"""The header of DCP packets (DCP D37-D40).

| bytes | field |
|---|---|
| 0-1 | version (4 bits), flags (12 bits) |
| 2-3 | checksum: RFC 1071 over the whole packet; 0: none |
| 4-11 | AN, u64 |
| 12-19 | previous AN, u64 |
| 20-27 | if `EXTENDED`: connection u32, sequence index u16, query epoch u16 |

Integers are big-endian. The body follows. On a keyed connection the last 8 bytes are the tag
(`broker.transport.arq.mac`), and there is no checksum.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from broker.errors import ProtocolError

VERSION: Final = 1

#: The sender requests an acknowledgement.
ACKREQ: Final = 1 << 11
ACK: Final = 1 << 10
#: A receiver requests retransmission. With `RETX` its sender states a range as unavailable.
NACK: Final = 1 << 9
KEEPALIVE: Final = 1 << 8
#: Establishment of a connection. In a data packet: the body begins with the sequence's description.
SYN: Final = 1 << 7
#: End of a connection.
FIN: Final = 1 << 6
#: AN and previous AN count bytes.
STREAM: Final = 1 << 5
RETX: Final = 1 << 4
UNCHAINED: Final = 1 << 3
DIGEST: Final = 1 << 2
COMPRESSED: Final = 1 << 1
EXTENDED: Final = 1 << 0

#: Flags that this version does not use: such packets are counted and dropped.
UNSUPPORTED: Final = UNCHAINED | DIGEST | COMPRESSED

_HEADER = struct.Struct(">HHQQ")
_EXTENDED = struct.Struct(">HHQQIHH")
_IDS = struct.Struct(">IHH")
HEADER_BYTES: Final = _HEADER.size
EXTENDED_BYTES: Final = _EXTENDED.size
#: The log stores signed numbers.
MOST_AN: Final = 2**63 - 1
_FLAGS = 0xFFF
_MODULUS = 0xFFFF


class Packet(NamedTuple):
    """A packet with its header decoded."""

    flags: int
    an: int
    previous: int
    body: bytes
    connection: int = 0
    sequence: int = 0
    """Index of the sequence on its connection."""
    epoch: int = 0
    """Of the query that selected the events."""


def checksum(data: bytes) -> int:
    """Return the Internet checksum of bytes whose checksum field is 0 (RFC 1071); never 0.

    The sum of 16-bit words with end-around carry is the number modulo 65,535: 2**16 leaves 1.
    """
    if len(data) % 2:
        data += b"\0"
    remainder = int.from_bytes(data, "big") % _MODULUS
    # 0 means that there is none, and is the other representation of 0xFFFF.
    return _MODULUS - remainder


def encode_extended(
    flags: int, an: int, previous: int, connection: int, sequence: int, epoch: int
) -> bytes:
    """Return an extended header, which nodes send, without a checksum."""
    head = VERSION << 12 | flags | EXTENDED
    return _EXTENDED.pack(head, 0, an, previous, connection, sequence, epoch & 0xFFFF)


def encode(packet: Packet, *, with_checksum: bool = False) -> bytes:
    """Return the bytes of a packet, without a tag."""
    flags, an, previous, body, *ids = packet
    if flags & EXTENDED:
        data = encode_extended(flags, an, previous, *ids) + body
    else:
        data = _HEADER.pack(VERSION << 12 | flags, 0, an, previous) + body
    if with_checksum:
        data = data[:2] + checksum(data).to_bytes(2, "big") + data[4:]
    return data


def decode(data: bytes) -> Packet:
    """Return the packet in a datagram, without its tag.

    Raises `ProtocolError` for a wrong size, version or checksum, and for a previous AN above the
    AN, or an AN above `MOST_AN`.
    """
    if len(data) < HEADER_BYTES:
        raise ProtocolError(f"a packet of {len(data)} bytes")
    head, found, an, previous = _HEADER.unpack_from(data)
    if head >> 12 != VERSION:
        raise ProtocolError(f"a packet of version {head >> 12}")
    if found and checksum(data[:2] + b"\0\0" + data[4:]) != found:
        raise ProtocolError("a packet with a wrong checksum")
    flags = head & _FLAGS
    if flags & EXTENDED:
        if len(data) < EXTENDED_BYTES:
            raise ProtocolError(f"a packet of {len(data)} bytes")
        connection, sequence, epoch = _IDS.unpack_from(data, HEADER_BYTES)
        body = data[EXTENDED_BYTES:]
        packet = Packet(flags, an, previous, body, connection, sequence, epoch)
    else:
        packet = Packet(flags, an, previous, data[HEADER_BYTES:])
    if an > MOST_AN:
        raise ProtocolError(f"a packet with the AN {an}")
    if not flags & (ACK | KEEPALIVE) and previous > an:
        raise ProtocolError(f"a packet with the previous AN {previous} above its AN {an}")
    return packet
