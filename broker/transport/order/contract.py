"""The interface of the variants of an order (RCM R34-R36, R48)."""

from __future__ import annotations

from collections.abc import Sequence

from zope.interface import Attribute, Interface

from broker.transport.order.effects import OrderEffect, Packet, Place
from broker.transport.order.instant import Instant
from broker.transport.order.packet import MessageId, Reserved, Stamp
from broker.transport.order.settings import OrderSettings
from broker.transport.view import LinkState


class IOrderCore(Interface):
    """The order at one site of a group: sans-I/O, and never re-entered.

    Own messages are sent in two phases, so that their stamps are part of a commit:

        stamp -> the owner commits messages and stamps -> release, or revoke

    Several commits may be under way. They are released in the order of their stamps. Until then no
    clock of this core reaches a reserved stamp, and this core delivers nothing above it. So a long
    commit delays deliveries, here and, where clocks decide, at connected sites.

    Below it, packets of one site to another arrive once and in order while neither sees the other
    as disconnected. Heartbeats carry no order and do not come here (K20). A wrong packet is
    returned as `Failed` with the site, and later ones of the same call are dropped. The core stays
    usable, also for this site.

    Memory is bounded by `OrderSettings.queue` and `history`, and by the number of sites.

    Before the owner reports a site as connected, both ends exchange clocks. Each end sends an
    offer and gets an answer, also if the connection itself did not break:

        offer_clock at this end -> answer_clock at the other end -> connect at this end

    An offer promises nothing. After an answer, its sender releases no stamp that is not above it.
    """

    connected: frozenset[str] = Attribute("sites for which this core waits")
    duplicates: int = Attribute("count of dropped messages that came twice")
    refused: int = Attribute("count of wrong packets")
    has_runs: bool = Attribute("True if one payload may be that of several messages")
    floor: int = Attribute(
        "clock, or epoch counter: store it before effects are applied, for the next incarnation. "
        "No reserved stamp is above it"
    )

    def stamp(count: int, at: Instant) -> Reserved:
        """Reserve numbers and stamps of the next own messages.

        Both follow each other by one. `Reserved.stamp` is None for the sequencer. The owner bounds
        the number of reserved stamps.
        """

    def release(
        payloads: Sequence[bytes], at: Instant, counts: Sequence[int] = ()
    ) -> list[OrderEffect]:
        """Send the messages of the first reserved stamps, at least one, after their commit.

        `counts` are the numbers of messages of each payload, a run whose stamps were reserved
        together; without them each payload is one message. Where `has_runs` is False all are one.

        The first effect sends all of them in one packet. So the owner bounds their number, to
        `wire.MAX_MESSAGES`, and their size. The site delivers them through the order too (K36).
        Raises `IndexError` for more messages than stamps.
        """

    def revoke(at: Instant) -> list[OrderEffect]:
        """Drop all stamps that are not released, after a commit has failed.

        Later messages get their numbers, but not their stamps.
        """

    def receive(site: str, packets: Sequence[Packet], at: Instant) -> list[OrderEffect]:
        """Accept packets of a site, also of one that is suspected."""

    def miss_messages(last: MessageId, at: Instant) -> list[OrderEffect]:
        """Handle that messages of a site up to `last` come no more, if they have not come (L6)."""

    def find_stamp(id: MessageId, stamp: Stamp | None, at: Instant) -> Stamp | None:
        """Return the stamp of a message that is delivered outside of the order; `place` follows.

        `stamp` is that of its entry, and None if no sequencer had numbered it. Without a known
        number it gets one if no other site is connected, else none.
        """

    def place(id: MessageId, stamp: Stamp) -> Place | None:
        """Record a message that is delivered outside of the order, or was by an earlier process.

        Return its neighbours if it is late.
        """

    def take_back(id: MessageId, stamp: Stamp) -> None:
        """Forget the delivery of a message, which was not logged. `place` follows."""

    def offer_clock(site: str, at: Instant) -> int:
        """Return the value of this end's offer: its clock, or its epoch."""

    def answer_clock(site: str, offer: int, at: Instant) -> int | None:
        """Return the answer to a site's offer. Raises `ProtocolError` for an impossible value.

        Return None while a reserved stamp is not above the offer, or while an offer of this end
        must be answered first. Then call it again with this offer after a short time, as long as
        the connection lasts.
        """

    def connect(site: str, answer: int, at: Instant) -> list[OrderEffect] | None:
        """Handle the answer to this end's offer. The site is connected from now on.

        Return None if stamps above the answer have arrived meanwhile: then make another offer at
        once.
        Raises `ProtocolError` for an impossible value.
        """

    def disconnect(site: str, state: LinkState, at: Instant) -> list[OrderEffect]:
        """Handle that a site is suspected or disconnected from now on."""

    def check_stamp(site: str, stamp: Stamp, at: Instant) -> None:
        """Raises `ProtocolError` for a stamp, named by a site, that is too far ahead."""

    def handle_timeout(at: Instant) -> list[OrderEffect]:
        """Do the work due at `at.now`, if any. Afterwards `next_timeout` lies after it."""

    def next_timeout() -> float | None:
        """Return the monotonic time of the next `handle_timeout`, or None."""


class IPacketCodec(Interface):
    """Bytes of the packets of a variant.

    Packets have numbers for sites: their places in the table of the sender, which only grows. The
    receiver gets it before the first packet that uses it: with the sender's offer, and later ones
    by `take_names`. Other senders have the table of `IOrderVariant.create_codec`.
    """

    names: tuple[str, ...] = Attribute("this site's table, for its offers")

    def set_names(site: str, names: Sequence[str]) -> None:
        """Set the table of a sender. Without effect if it is the begin of the known one.

        Raises `ProtocolError` for a name that stands twice.
        """

    def take_names() -> bytes | None:
        """Return a packet with names that `encode` has added, to send to all sites before anything
        else; None without new ones."""

    def encode(packets: Sequence[Packet]) -> bytes:
        """Encode the packets of one `Send`, which are for all its sites.

        Raises `Overloaded` for more than `wire.MAX_NAMES` sites since the start.
        """

    def decode(site: str, data: bytes) -> list[Packet]:
        """Return the packets of one `Send` of a site. Raises `ProtocolError`, and nothing else."""


class IOrderVariant(Interface):
    """A variant: its name, and its cores."""

    name: str = Attribute("name in the configuration")

    def create_core(
        site: str, incarnation: int, settings: OrderSettings, floor: int = 0
    ) -> IOrderCore:
        """Return the core of a site.

        `floor` is the highest `IOrderCore.floor` of earlier incarnations.
        """

    def create_codec(sites: Sequence[str]) -> IPacketCodec:
        """Return the codec of a site, or of several that share it and its list.

        The order of the list counts. Raises `ConfigurationError` for more than 32 sites.
        """
