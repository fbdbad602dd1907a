"""Messages of a site on their way to the others: events by their commits, and others."""

from __future__ import annotations

from collections.abc import Sequence

from broker.event.place import Mark
from broker.streams.contract import CarriedEvent, FlowBatch
from broker.transport.message import Message as TransportMessage
from broker.transport.order import Instant, IOrderCore, MessageId
from plugins.rcm.addressing import send_addressed
from plugins.rcm.conversion import Conversion
from plugins.rcm.effects import GroupEffect
from plugins.rcm.entries import Entries
from plugins.rcm.held_events import HeldEvent, HeldMessage, hold_events
from plugins.rcm.losses import Losses
from plugins.rcm.payload import Channel, ChannelMessage, encode_payload

#: Messages that are sent together; the order has a bound.
MOST_RELEASED = 1_000


class OwnMessages:
    def __init__(
        self,
        site: str,
        incarnation: int,
        core: IOrderCore,
        entries: Entries,
        losses: Losses,
        conversion: Conversion,
    ) -> None:
        self._site = site
        self._incarnation = incarnation
        self._core = core
        self._entries = entries
        self._losses = losses
        self._conversion = conversion
        self._stamped: dict[Mark, tuple[int, bytes]] = {}
        """Numbers, and records without entries, of own events that are being committed."""
        self._committed: dict[int, tuple[HeldEvent | HeldMessage, bytes]] = {}
        """Own messages and payloads by number, behind events that are being committed."""
        self._released = 0
        """Number of the last released message."""
        self._sends_messages = False
        """True if some are no events."""

    def stamp(self, events: Sequence[CarriedEvent], at: Instant) -> list[bytes]:
        """Return the entries of own events, before their commit."""
        reserved = self._core.stamp(len(events), at)
        bound, encode = self._entries.bound_of(self._site), self._entries.encode
        entries = []
        for event, (number, stamp) in zip(events, reserved, strict=True):
            self._stamped[event.mark] = number, event.record
            id = MessageId(self._site, self._incarnation, number)
            entries.append(encode(id, stamp, bound))
        return entries

    def revoke(self, at: Instant) -> list[GroupEffect]:
        """Drop the stamps of events whose commit has failed."""
        self._stamped.clear()
        waiting = [held for _, (held, _) in sorted(self._committed.items())]
        self._committed.clear()
        effects = self._conversion.convert(self._core.revoke(at))
        for held in waiting:
            if isinstance(held, HeldMessage):
                # It was stamped behind the events.
                effects += self.send_copies(held.channel, held.data, held.copies, at)
        return effects

    def publish(self, batch: FlowBatch, at: Instant) -> list[GroupEffect]:
        """Send committed own events."""
        for held in hold_events(batch):
            stamped = self._stamped.pop(held.event.mark, None)
            if stamped is not None:
                held.has_entry = True
                number, record = stamped
                self._committed[number] = held, encode_payload(held.to_payload(record))
        return self._release(at)

    def send(self, channel: Channel, data: bytes, at: Instant) -> list[GroupEffect]:
        """Send a message that is no event to all sites."""
        return self.send_copies(channel, data, None, at)

    def send_copies(
        self, channel: Channel, data: bytes, copies: Sequence[TransportMessage] | None, at: Instant
    ) -> list[GroupEffect]:
        """Send a message that is no event, behind the events that are being committed.

        This site gets the data, and others the copies that are for them, or only the place; all get
        the data without copies. It is in no log: sites that lose it are told that it is missing.
        """
        ((number, _),) = self._core.stamp(1, at)
        self._sends_messages = True
        held = HeldMessage(channel, data, copies=copies)
        self._committed[number] = held, encode_payload(ChannelMessage(channel, data))
        return self._release(at)

    def _release(self, at: Instant) -> list[GroupEffect]:
        """Send the messages before which none is being committed."""
        payloads: list[bytes] = []
        released: list[HeldEvent | HeldMessage] = []
        conversion = self._conversion
        while (committed := self._committed.pop(self._released + 1, None)) is not None:
            self._released += 1
            held, payload = committed
            conversion.held[MessageId(self._site, self._incarnation, self._released)] = held
            payloads.append(payload)
            released.append(held)
            mark = held.event.mark if isinstance(held, HeldEvent) else None
            self._losses.record_released(self._incarnation, self._released, mark)
        effects: list[GroupEffect] = []
        for first in range(0, len(payloads), MOST_RELEASED):
            part = slice(first, first + MOST_RELEASED)
            found = self._core.release(payloads[part], at)
            if self._sends_messages:
                codec, others = conversion.codec, conversion.others
                sends = send_addressed(found.pop(0), released[part], others, codec)
                effects += conversion.announce_names(sends)
            effects += conversion.convert(found)
        return effects
