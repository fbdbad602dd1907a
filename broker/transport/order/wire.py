"""Bytes of the packets of an order: msgpack arrays of a kind and numbers.

Sites are numbers: their places in the table of the sender. The sender of a packet is known from its
link, and not in the packet.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import Meta
from zope.interface import implementer

from broker.errors import ConfigurationError, Overloaded, ProtocolError
from broker.transport.order.contract import IPacketCodec
from broker.transport.order.effects import Packet
from broker.transport.order.packet import Clock, Message, MessageId, Stamp

#: Of a group.
MAX_SITES: Final = 32
#: Of a table, with sites that have left.
MAX_NAMES: Final = 512
#: Of one packet, and of one run.
MAX_MESSAGES: Final = 10_000

Site: TypeAlias = Annotated[int, Meta(ge=0, lt=MAX_NAMES)]
#: A set of sites, with a bit for each: bytes, the lowest first, if it has more than 32.
Mask: TypeAlias = (
    Annotated[int, Meta(ge=0, lt=2**MAX_SITES)] | Annotated[bytes, Meta(max_length=MAX_NAMES // 8)]
)
#: Name of a site.
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=64)]
Time: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Incarnation: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Number: TypeAlias = Annotated[int, Meta(ge=1, le=2**63 - 1)]
RunLength: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_MESSAGES)]


class Packed(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """Base of packets as they are encoded. The tag of a class is the kind, the first element."""


class PackedMessages(Packed, frozen=True, tag=1):
    """Messages with consecutive numbers, and the same connected sites."""

    incarnation: Incarnation
    first: Number
    connected: Mask
    #: The stamp of the first payload, and the difference of each further one to the one before.
    #: Without stamps for the sequencer.
    stamps: Annotated[tuple[Time, ...], Meta(max_length=MAX_MESSAGES)]
    payloads: Annotated[tuple[bytes, ...], Meta(min_length=1, max_length=MAX_MESSAGES)]
    #: Messages of each payload, a run; empty if each is one.
    counts: Annotated[tuple[RunLength, ...], Meta(max_length=MAX_MESSAGES)] = ()


class PackedClock(Packed, frozen=True, tag=2):
    time: Time


class PackedNames(Packed, frozen=True, tag=3):
    """Further names of the sender's table."""

    first: Site
    names: Annotated[tuple[Name, ...], Meta(max_length=MAX_NAMES)]


class SiteTable:
    """Names of sites as numbers, which do not change. At most `MAX_NAMES`."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        self._numbers = {name: number for number, name in enumerate(names)}

    def add(self, name: str) -> int:
        """Return the number of a name, a new one if it has none. Raises `Overloaded`."""
        number = self._numbers.setdefault(name, len(self.names))
        if number == len(self.names):
            if number >= MAX_NAMES:
                del self._numbers[name]
                raise Overloaded(f"{MAX_NAMES} sites since the start: restart this node")
            self.names.append(name)
        return number

    def name_of(self, number: int) -> str:
        """Raises `ProtocolError`."""
        if number >= len(self.names):
            raise ProtocolError(f"site {number} of {len(self.names)}")
        return self.names[number]

    def mask_of(self, names: frozenset[str]) -> Mask:
        numbers = self._numbers
        try:
            mask = sum(1 << numbers[name] for name in names)
        except KeyError:
            mask = sum(1 << self.add(name) for name in sorted(names))
        bits = mask.bit_length()
        return mask if bits <= MAX_SITES else mask.to_bytes((bits + 7) // 8, "little")

    def names_of(self, mask: Mask) -> frozenset[str]:
        """Raises `ProtocolError`."""
        bits = mask if isinstance(mask, int) else int.from_bytes(mask, "little")
        self.name_of(max(bits.bit_length() - 1, 0))
        return frozenset(name for bit, name in enumerate(self.names) if bits >> bit & 1)


@implementer(IPacketCodec)
class PacketCodec:
    """Codec of the variants whose sender stamps, and base of those with further packets."""

    #: Classes of packets; a variant with further ones replaces it.
    packed: Any = PackedMessages | PackedClock

    def __init__(self, sites: Sequence[str]) -> None:
        """Raises `ConfigurationError` for too many sites."""
        if len(sites) > MAX_SITES:
            raise ConfigurationError(f"a group of {len(sites)} sites: at most {MAX_SITES}")
        self._sites = SiteTable(sites)
        self._announced = len(sites)
        # Of senders, by name. Others use the list of this site.
        self._tables: dict[str, SiteTable] = {}
        self._sender = self._sites  # table of the sender whose packet is decoded
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(self.packed | PackedNames).decode

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._sites.names)

    def set_names(self, site: str, names: Sequence[str]) -> None:
        if len({*names}) < len(names):
            raise ProtocolError(f"{site} has two numbers for a site")
        table = self._tables.get(site)
        if table is None or table.names[: len(names)] != list(names):
            self._tables[site] = SiteTable(names)

    def take_names(self) -> bytes | None:
        names, first = self._sites.names, self._announced
        if first == len(names):
            return None
        self._announced = len(names)
        return self._encode(PackedNames(first, tuple(names[first:])))

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
        self._sender = self._tables.get(site, self._sites)
        if isinstance(packed, PackedMessages):
            return self._unpack_messages(site, packed)
        if isinstance(packed, PackedNames):
            self._add_names(site, packed)
            return []
        return [self._unpack(packed)]

    def _add_names(self, site: str, packed: PackedNames) -> None:
        """Raises `ProtocolError`."""
        known = self._sender.names
        if packed.first > len(known) or packed.first + len(packed.names) > MAX_NAMES:
            raise ProtocolError(f"{site} numbers sites from {packed.first}, after {len(known)}")
        self.set_names(site, [*known[: packed.first], *packed.names])

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
        counts = tuple(message.length for message in messages)
        if sum(counts) == len(counts):
            counts = ()
        return PackedMessages(incarnation, number, connected, stamps, payloads, counts)

    def _unpack_messages(self, site: str, packed: PackedMessages) -> list[Packet]:
        connected = self._sender.names_of(packed.connected)
        incarnation, payloads = packed.incarnation, packed.payloads
        stamps: list[Stamp | None] = [None] * len(payloads)
        if packed.stamps:
            stamps = [Stamp(time, site) for time in accumulate(packed.stamps)]
            if len(stamps) != len(payloads):
                raise ProtocolError(f"{len(stamps)} stamps of {len(payloads)} messages")
        counts = packed.counts or (1,) * len(payloads)
        if len(counts) != len(payloads):
            raise ProtocolError(f"{len(counts)} runs of {len(payloads)} payloads")
        numbers = list(accumulate(counts, initial=packed.first))
        if max(numbers[-1], sum(packed.stamps) + counts[-1]) > 2**63:
            raise ProtocolError("a number or stamp above 63 bits")
        return [
            Message(MessageId(site, incarnation, number), payload, connected, stamp, count)
            for number, payload, stamp, count in zip(
                numbers, payloads, stamps, counts, strict=False
            )
        ]
