"""Packets of the comparison on the links of a group, beside those of the order.

A packet is the byte `MARK` and a msgpack array of a kind and fields. Compared variants stand there
by their names, sites by their places in the list of the group's sites.
"""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple, TypeAlias

import msgspec

from broker.transport.order.wire import MAX_MESSAGES, MAX_SITES, Incarnation, Time
from plugins.rcm.comparison.block_sequence import DIGEST_BYTES, LEAF, Digest, Progress
from plugins.rcm.comparison.peer_blocks import MOST_PAGE
from plugins.rcm.marked_codec import MarkedCodec

MARK: Final = b"v"
#: In one packet.
MOST_VARIANTS: Final = 8
MOST_DIGESTS: Final = 128
_MOST_PARTS: Final = 256
_LONGEST: Final = 1 << 20

_Name: TypeAlias = Annotated[str, msgspec.Meta(max_length=64)]
_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Block: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Clocks: TypeAlias = Annotated[
    tuple[tuple[_Name, Time], ...], msgspec.Meta(max_length=MOST_VARIANTS)
]
#: A set of the compared sites, with a bit for each.
_View: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=2**MAX_SITES)]
_Digest: TypeAlias = tuple[
    _Block,
    _View,
    _Count,
    Annotated[bytes, msgspec.Meta(max_length=LEAF.size)],
    Annotated[bytes, msgspec.Meta(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)],
]
#: View, time and number of `Progress`.
_Told: TypeAlias = tuple[_View, _Block, _Count]


class _Packet(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    pass


class Released(NamedTuple):
    """Numbers of what a site has released so far."""

    messages: _Count
    """Number of its last message."""
    releases: _Count
    """Number of its last release, which compared variants order as one message."""


class Offer(_Packet, frozen=True, tag=1):
    """Clocks of variants, for which answers are requested."""

    incarnation: Incarnation
    sites: Annotated[tuple[_Name, ...], msgspec.Meta(max_length=MAX_SITES)]
    variants: Annotated[tuple[_Name, ...], msgspec.Meta(max_length=MOST_VARIANTS)]
    """All that the sender compares, the delivering one included."""
    released: Released
    exchange: _Count
    clocks: _Clocks


class Answer(_Packet, frozen=True, tag=2):
    exchange: _Count
    released: Released
    clocks: _Clocks


class Batch(_Packet, frozen=True, tag=3):
    """Packets of variants. With a count: the sender has released messages of the group."""

    incarnation: Incarnation
    release: _Count
    """Number of the release."""
    first: _Count
    """Number of the first message."""
    count: Annotated[int, msgspec.Meta(ge=0, le=MAX_MESSAGES)]
    clock: Time
    """The site clock of the sender."""
    parts: Annotated[tuple[tuple[_Name, bytes], ...], msgspec.Meta(max_length=_MOST_PARTS)]


class Suspicion(_Packet, frozen=True, tag=4):
    """The sender suspects the receiver in a variant."""

    variant: _Name


class Report(_Packet, frozen=True, tag=5):
    """Progress and new digests, for each variant that has some."""

    incarnation: Incarnation
    variants: Annotated[
        tuple[
            tuple[
                _Name,
                _Told,
                Annotated[tuple[_Digest, ...], msgspec.Meta(max_length=MOST_DIGESTS)],
            ],
            ...,
        ],
        msgspec.Meta(min_length=1, max_length=MOST_VARIANTS),
    ]


class PageRequest(_Packet, frozen=True, tag=6):
    """Request for messages of a published block, from an index on."""

    variant: _Name
    block: _Block
    first: _Count


class Page(_Packet, frozen=True, tag=7):
    variant: _Name
    block: _Block
    first: _Count
    leaves: Annotated[bytes, msgspec.Meta(max_length=MOST_PAGE * LEAF.size)]


Packet: TypeAlias = Offer | Answer | Batch | Suspicion | Report | PageRequest | Page
_codec: MarkedCodec[Packet] = MarkedCodec(MARK, Packet, "of the comparison", _LONGEST)
encode_packet, decode_packet = _codec.encode, _codec.decode


def read_report(report: Report) -> list[tuple[str, Progress, list[Digest]]]:
    """Return progress and digests of each variant."""
    return [
        (
            variant,
            Progress(*told, report.incarnation),
            [Digest(*each) for each in digests],
        )
        for variant, told, digests in report.variants
    ]


class _SentMessages(msgspec.Struct, array_like=True, frozen=True, tag=1):
    """Messages of the order on their way to other sites (`broker.transport.order.wire`)."""

    incarnation: int
    first: int
    connected: msgspec.Raw
    stamps: msgspec.Raw
    payloads: tuple[msgspec.Raw, ...]
    counts: tuple[int, ...]


_decode_sent = msgspec.msgpack.Decoder(_SentMessages).decode


class SentPacket(msgspec.Struct, frozen=True, gc=False):
    """Own messages in a packet of an order, and its bytes beside their payloads."""

    incarnation: int
    first: int
    count: int
    extra: int


def read_sent(data: bytes) -> SentPacket:
    """Return what an own packet of an order has; no messages for another packet."""
    try:
        sent = _decode_sent(data)
    except msgspec.ValidationError:
        return SentPacket(0, 0, 0, len(data))
    extra = len(data) - sum(memoryview(each).nbytes for each in sent.payloads)
    count = sum(sent.counts) or len(sent.payloads)
    return SentPacket(sent.incarnation, sent.first, count, extra)
