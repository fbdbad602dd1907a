"""Packets about certificates on the links of a group, beside those of the order.

A packet is the byte `MARK` and a msgpack array of a kind and fields. Packets of the order are
arrays, and begin with other bytes.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

from broker.errors import ProtocolError
from broker.order_certificates.certificate import MOST_CERTIFICATE_BYTES
from broker.order_certificates.leaf import MOST_LEAF_BYTES
from broker.order_certificates.merkle import MOST_LEAVES

MARK: Final = b"c"
#: In one packet.
MOST_CERTIFICATES: Final = 64
MOST_PACKET_LEAVES: Final = 256
_LONGEST: Final = 256 << 10

_MAX_SIGNED: Final = 2**63 - 1
_Block: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=_MAX_SIGNED)]
_Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=_MAX_SIGNED)]
_Index: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MOST_LEAVES)]
_Certificate: TypeAlias = Annotated[bytes, msgspec.Meta(max_length=MOST_CERTIFICATE_BYTES)]
_Leaf: TypeAlias = Annotated[bytes, msgspec.Meta(max_length=MOST_LEAF_BYTES)]


class _Packet(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    pass


class Certificates(_Packet, frozen=True, tag=1):
    """New certificates of the sender."""

    certificates: Annotated[
        tuple[_Certificate, ...], msgspec.Meta(min_length=1, max_length=MOST_CERTIFICATES)
    ]


class LeafRequest(_Packet, frozen=True, tag=2):
    """Request for leaves of a block from an index on."""

    block: _Block
    first: _Index


class Leaves(_Packet, frozen=True, tag=3):
    """Answer: leaves, of `count` in the block now. None of them if the sender has only roots."""

    block: _Block
    first: _Index
    count: _Index
    leaves: Annotated[tuple[_Leaf, ...], msgspec.Meta(max_length=MOST_PACKET_LEAVES)]


Packet: TypeAlias = Certificates | LeafRequest | Leaves
_decode = msgspec.msgpack.Decoder(Packet).decode
_encode = msgspec.msgpack.Encoder().encode


def encode_packet(packet: Packet) -> bytes:
    return MARK + _encode(packet)


def decode_packet(data: bytes) -> Packet:
    """Raises `ProtocolError`."""
    if not data.startswith(MARK) or len(data) > _LONGEST:
        raise ProtocolError(f"no packet about order certificates: {len(data)} bytes")
    try:
        packet: Packet = _decode(data[len(MARK) :])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ProtocolError(f"malformed packet about order certificates: {error}") from None
    return packet
