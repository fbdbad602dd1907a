"""Effects of an order's core as effects for the transport."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from broker.transport.effects import Failed
from broker.transport.order import (
    Deliver,
    IPacketCodec,
    Message,
    Move,
    OrderEffect,
    Packet,
    Send,
    Suspect,
)
from plugins.rcm.addressing import split_messages
from plugins.rcm.effects import (
    DeliverMessage,
    EndLink,
    GroupEffect,
    MoveMessage,
    SendData,
    SuspectSite,
)
from plugins.rcm.entries import Entries
from plugins.rcm.held_events import HeldEvents, HeldMessage, HeldTable, join_deliveries


class Conversion:
    """Has the events and other messages for which the core has numbers only."""

    def __init__(self, codec: IPacketCodec, entries: Entries) -> None:
        self.codec = codec
        self.others: tuple[str, ...] = ()
        """The other sites."""
        self.held = HeldTable()
        """Messages that wait for their delivery."""
        self.rejected = 0
        """Wrong packets and events of other sites."""
        self._entries = entries

    def convert(self, effects: Iterable[OrderEffect]) -> list[GroupEffect]:
        """Return the effects of the core for the transport; deliveries are joined."""
        found: list[GroupEffect] = []
        delivered: list[HeldEvents] = []

        def flush() -> None:
            if delivered:
                found.extend(join_deliveries(delivered))
                delivered.clear()

        for effect in effects:
            match effect:
                case Deliver(message, stamp, late):
                    for id, held in self.held.take(message.id, message.length):
                        place = stamp.after(id.number - message.id.number)
                        if isinstance(held, HeldMessage):
                            flush()
                            of = held.channel, id, place, late, held.data, held.is_recovered
                            found.append(DeliverMessage(*of))
                        else:
                            is_new = message.stamp != stamp
                            self._entries.deliver(held, id, place, late, is_new=is_new)
                            delivered.append(held)
                case Send(packets, sites):
                    sent_to = self.others if sites is None else sites
                    found += self.announce_names([SendData(self._encode(packets), sent_to)])
                case Move(id, before, stamp, late):
                    flush()
                    found.append(MoveMessage(id, before, stamp, late))
                case Suspect(site, reason):
                    flush()
                    found.append(SuspectSite(site, reason))
                case Failed(error, site):
                    flush()
                    self.rejected += 1
                    found.append(EndLink(str(site), error))
        flush()
        return found

    def announce_names(self, sends: Iterable[GroupEffect]) -> list[GroupEffect]:
        """Return encoded packets, behind the new names in them."""
        encoded = list(sends)
        names = self.codec.take_names()
        return encoded if names is None else [SendData([names], self.others), *encoded]

    def _encode(self, packets: Sequence[Packet]) -> list[bytes]:
        """Return the packets in messages of moderate size."""
        if not isinstance(packets[0], Message):
            return [self.codec.encode(packets)]
        return [self.codec.encode(part) for part in split_messages(packets)]
