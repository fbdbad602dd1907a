"""Packets about certificates on the links of a group, beside those of the order.

A packet is the byte `MARK` and a msgpack array of a kind and fields. Packets of the order are
arrays, and begin with other bytes.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

from broker.order_certificates.certificate import MOST_CERTIFICATE_BYTES
from broker.order_certificates.leaf import MOST_LEAF_BYTES
from broker.order_certificates.merkle import MOST_LEAVES
from plugins.rcm.marked_codec import MarkedCodec

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
_codec: MarkedCodec[Packet] = MarkedCodec(MARK, Packet, "about order certificates", _LONGEST)
encode_packet, decode_packet = _codec.encode, _codec.decode
