"""Bytes of the packets of an order: msgpack arrays of a kind and numbers.

Sites are numbers: their places in the list of the group's sites. The sender of a packet is known
from its link, and not in the packet.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import Meta
from zope.interface import implementer

from broker.errors import ConfigurationError, ProtocolError
from broker.transport.order.contract import IPacketCodec
from broker.transport.order.effects import Packet
from broker.transport.order.packet import Clock, Message, MessageId, Stamp

#: Of a group.
MAX_SITES: Final = 32
#: Of one packet.
MAX_MESSAGES: Final = 10_000

Site: TypeAlias = Annotated[int, Meta(ge=0, lt=MAX_SITES)]
#: A set of sites, with a bit for each.
Mask: TypeAlias = Annotated[int, Meta(ge=0, lt=2**MAX_SITES)]
Time: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Incarnation: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Number: TypeAlias = Annotated[int, Meta(ge=1, le=2**63 - 1)]


class Packed(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """Base of packets as they are encoded. The tag of a class is the kind, the first element."""


class PackedMessages(Packed, frozen=True, tag=1):
    """Messages with consecutive numbers, and the same connected sites."""

    incarnation: Incarnation
    first: Number
    connected: Mask
    #: The first stamp, and the difference of each further one to the one before. Without stamps
    #: for the sequencer.
    stamps: Annotated[tuple[Time, ...], Meta(max_length=MAX_MESSAGES)]
    payloads: Annotated[tuple[bytes, ...], Meta(min_length=1, max_length=MAX_MESSAGES)]


class PackedClock(Packed, frozen=True, tag=2):
    time: Time


class SiteTable:
    """The sites of a group as numbers."""

    def __init__(self, names: Sequence[str]) -> None:
        """Raises `ConfigurationError` for too many sites."""
        if len(names) > MAX_SITES:
            raise ConfigurationError(f"a group of {len(names)} sites: at most {MAX_SITES}")
        self._names = tuple(names)
        self._numbers = {name: number for number, name in enumerate(names)}

    def number_of(self, name: str) -> int:
        return self._numbers[name]

    def name_of(self, number: int) -> str:
        """Raises `ProtocolError`."""
        if number >= len(self._names):
            raise ProtocolError(f"site {number} of a group of {len(self._names)}")
        return self._names[number]

    def mask_of(self, names: frozenset[str]) -> int:
        return sum(1 << self._numbers[name] for name in names)

    def names_of(self, mask: int) -> frozenset[str]:
        """Raises `ProtocolError`."""
        self.name_of(max(mask.bit_length() - 1, 0))
        return frozenset(name for bit, name in enumerate(self._names) if mask >> bit & 1)


@implementer(IPacketCodec)
class PacketCodec:
    """Codec of the variants whose sender stamps, and base of those with further packets."""

    #: Classes of packets; a variant with further ones replaces it.
    packed: Any = PackedMessages | PackedClock

    def __init__(self, sites: Sequence[str]) -> None:
        self._sites = SiteTable(sites)
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(self.packed).decode

    def encode(self, packets: Sequence[Packet]) -> bytes:
        first = packets[0]
        if isinstance(first, Message):
            return self._encode(self._pack_messages(first, packets))
        return self._encode(self._pack(first))

    def decode(self, site: str, data: bytes) -> list[Packet]:
        try:
            packed = self._decode(data)
        except (ValueError, RecursionError) as error:
            raise ProtocolError(f"malformed packet of {site}: {error}") from None
        if isinstance(packed, PackedMessages):
            return self._unpack_messages(site, packed)
        return [self._unpack(packed)]

    def _pack(self, packet: Packet) -> Packed:
        assert isinstance(packet, Clock)
        return PackedClock(packet.time)

    def _unpack(self, packed: Packed) -> Packet:
        """Raises `ProtocolError`."""
        assert isinstance(packed, PackedClock)
        return Clock(packed.time)

    # ----------------------------------------------------------------- of messages

    def _pack_messages(self, first: Message, messages: Sequence[Any]) -> PackedMessages:
        stamps: tuple[int, ...] = ()
        if first.stamp is not None:
            times = [message.stamp.time for message in messages]
            stamps = first.stamp.time, *(later - earlier for earlier, later in pairwise(times))
        _, incarnation, number = first.id
        connected = self._sites.mask_of(first.connected)
        payloads = tuple(message.payload for message in messages)
        return PackedMessages(incarnation, number, connected, stamps, payloads)

    def _unpack_messages(self, site: str, packed: PackedMessages) -> list[Packet]:
        connected = self._sites.names_of(packed.connected)
        incarnation, payloads = packed.incarnation, packed.payloads
        stamps: list[Stamp | None] = [None] * len(payloads)
        if packed.stamps:
            stamps = [Stamp(time, site) for time in accumulate(packed.stamps)]
            if len(stamps) != len(payloads):
                raise ProtocolError(f"{len(stamps)} stamps of {len(payloads)} messages")
        last = packed.first + len(payloads) - 1
        if max(last, sum(packed.stamps)) >= 2**63:
            raise ProtocolError("a number or stamp above 63 bits")
        return [
            Message(MessageId(site, incarnation, number), payload, connected, stamp)
            for number, payload, stamp in zip(
                range(packed.first, last + 1), payloads, stamps, strict=True
            )
        ]
