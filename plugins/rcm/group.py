"""A site's end of a group: the order above the links, and the events of its messages.

An event's way, at its own site and at another one:

    stamp -> (commit) -> publish -> SendData, and later DeliverBatch
    receive -> PassOn -> (the node has all events before it) -> order -> later DeliverBatch

Methods with effects are never re-entered: the transport applies all effects of a call before the
next call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from broker.errors import ProtocolError
from broker.event.flow import origin_of
from broker.event.order_entry import OrderEntry
from broker.event.place import Mark
from broker.streams.contract import CarriedEvent, FlowBatch
from broker.transport.effects import Failed
from broker.transport.message import Message as TransportMessage
from broker.transport.order import (
    Deliver,
    Instant,
    IOrderCore,
    IPacketCodec,
    Message,
    MessageId,
    Move,
    OrderEffect,
    Packet,
    Send,
    Stamp,
    Suspect,
)
from broker.transport.view import LinkState
from plugins.rcm.addressing import send_addressed, split_messages
from plugins.rcm.effects import (
    DeliverBatch,
    DeliverMessage,
    EndLink,
    GroupEffect,
    MoveMessage,
    PassOn,
    ReportMissing,
    SendData,
    SuspectSite,
)
from plugins.rcm.entries import Entries, stamp_of
from plugins.rcm.event_reader import EventReader
from plugins.rcm.held_events import (
    HeldEvent,
    HeldMessage,
    hold_events,
    join_batches,
    join_effects,
)
from plugins.rcm.inbox import Inbox
from plugins.rcm.payload import Channel, ChannelMessage, decode_payload, encode_payload
from plugins.rcm.site_change import ChangeReader
from plugins.rcm.site_list import Change

#: Messages that are sent together; the order has a bound.
MOST_RELEASED = 1_000


class Group:
    """The end of one site, for one process."""

    @property
    def origins(self) -> dict[str, str]:
        """Log of each site, by its handshake."""
        return self._events.origins

    def __init__(
        self,
        site: str,
        incarnation: int,
        sites: Sequence[str],
        patterns: Collection[str],
        core: IOrderCore,
        codec: IPacketCodec,
        entries: Entries,
        read_clock: Callable[[float], int],
    ) -> None:
        """`sites` are all sites, `patterns` the carrying patterns. `read_clock` returns the site
        clock at a monotonic time."""
        self.core = core
        self.rejected = 0
        """Wrong packets and events of other sites."""
        self._site = site
        self._incarnation = incarnation
        self._others: tuple[str, ...] = ()
        self._events = EventReader(patterns, entries)
        self.codec = codec
        self._entries = entries
        self._read_clock = read_clock
        self._changes = ChangeReader()
        self._inboxes: dict[str, Inbox] = {}
        """Also of sites that have left."""
        self.set_sites(sites)
        self._held: dict[MessageId, HeldEvent | HeldMessage] = {}
        self._arrived: dict[tuple[str, Mark], MessageId] = {}
        """Ids of received messages that the node has not passed back."""
        self._stamped: dict[Mark, tuple[int, bytes]] = {}
        """Numbers, and records without entries, of own events that are being committed."""
        self._committed: dict[int, tuple[HeldEvent | HeldMessage, bytes]] = {}
        """Own messages and payloads by number, behind events that are being committed."""
        self._released = 0
        """Number of the last released message."""

    def set_sites(self, sites: Collection[str], changes: Iterable[Change] = ()) -> None:
        """Set the sites of the group, and the changes that made them so.

        `disconnect` is called for sites that have left.
        """
        self._others = tuple(each for each in sites if each != self._site)
        for each in self._others:
            self._inboxes.setdefault(each, Inbox())
        numbers = [(change.site, change[3:]) for change in changes]
        for site, inbox in self._inboxes.items():
            inbox.changes = frozenset(number for each, number in numbers if each == site)

    # ----------------------------------------------------------------- own events

    def stamp(self, events: Sequence[CarriedEvent], now: float) -> list[bytes]:
        """Return the entries of own events, before their commit."""
        reserved = self.core.stamp(len(events), self._instant(now))
        bound, encode = self._entries.bound_of(self._site), self._entries.encode
        entries = []
        for event, (number, stamp) in zip(events, reserved, strict=True):
            self._stamped[event.mark] = number, event.record
            id = MessageId(self._site, self._incarnation, number)
            entries.append(encode(id, stamp, bound))
        return entries

    def revoke(self, now: float) -> list[GroupEffect]:
        """Drop the stamps of events whose commit has failed."""
        self._stamped.clear()
        waiting = [held for _, (held, _) in sorted(self._committed.items())]
        self._committed.clear()
        effects = self._convert(self.core.revoke(self._instant(now)))
        for held in waiting:
            if isinstance(held, HeldMessage) and held.message is not None:
                # It was stamped behind the events.
                effects += self.send_messages(held.channel, [held.message], now)
        return effects

    def publish(self, batch: FlowBatch, now: float) -> list[GroupEffect]:
        """Send committed own events."""
        for held in hold_events(batch):
            stamped = self._stamped.pop(held.event.mark, None)
            if stamped is not None:
                held.has_entry = True
                number, record = stamped
                self._committed[number] = held, encode_payload(held.to_payload(record))
        return self._release(now)

    def send(self, channel: Channel, data: bytes, now: float) -> list[GroupEffect]:
        """Send a message that is no event to all sites."""
        return self.send_messages(channel, [TransportMessage(data, None, self._others)], now)

    def send_messages(
        self, channel: Channel, messages: Sequence[TransportMessage], now: float
    ) -> list[GroupEffect]:
        """Send messages that are no events, behind the events that are being committed.

        Their destinations are other sites; the rest of the group gets their places. They are in no
        log: sites that lose one are told that it is missing.
        """
        reserved = self.core.stamp(len(messages), self._instant(now))
        for message, (number, _) in zip(messages, reserved, strict=True):
            data = message.payload
            held = HeldMessage(channel, data, message=message)
            self._committed[number] = held, encode_payload(ChannelMessage(channel, data))
        return self._release(now)

    def _release(self, now: float) -> list[GroupEffect]:
        """Send the messages before which none is being committed."""
        effects: list[GroupEffect] = []
        while self._released + 1 in self._committed:
            payloads: list[bytes] = []
            released: list[HeldEvent | HeldMessage] = []
            while len(payloads) < MOST_RELEASED and self._released + 1 in self._committed:
                self._released += 1
                held, payload = self._committed.pop(self._released)
                self._held[MessageId(self._site, self._incarnation, self._released)] = held
                payloads.append(payload)
                released.append(held)
            found = self.core.release(payloads, self._instant(now))
            if any(isinstance(held, HeldMessage) for held in released):
                sends = send_addressed(found.pop(0), released, self._others, self.codec)
                effects += self._announce_names(sends)
            effects += self._convert(found)
        return effects

    def place(self, batch: FlowBatch, now: float) -> list[bytes]:
        """Return the entries of events that are delivered outside of the order."""
        at = self._instant(now)
        return [self._entries.place(batch.flow, event, at).annotation for event in batch.events]

    def take_back(self, flow: str, after: Mark) -> list[tuple[MessageId, Stamp]]:
        """Forget deliveries of a flow that were not logged, and return them."""
        return self._entries.take_back(flow, after)

    # ----------------------------------------------------------------- events of other sites

    def receive(self, site: str, data: Sequence[bytes], now: float) -> list[GroupEffect]:
        """Take messages of the link to a site."""
        inbox, bound = self._inboxes[site], self._entries.bound_of(site)
        batches: list[HeldEvent] = []
        following: list[Packet] = []
        """Packets that wait for nothing."""
        effects: list[GroupEffect] = []
        error: ProtocolError | None = None
        try:
            for packet in (each for one in data for each in self.codec.decode(site, one)):
                if isinstance(packet, Message):
                    held = self._read_message(site, packet, bound, now)
                    if isinstance(held, HeldMessage) and inbox.pass_following(packet.id):
                        self._held[packet.id] = held
                        following.append(packet)
                        continue
                    if inbox.is_full or inbox.is_passed(packet.id):
                        # An event comes from a log, or has come from there.
                        continue
                    self._held[packet.id] = held
                    if isinstance(held, HeldEvent):
                        self._arrived[held.flow, held.event.mark] = packet.id
                        batches.append(held)
                    else:
                        inbox.add_ready(packet.id)
                inbox.add_packet(packet)
        except ProtocolError as found:
            self.rejected += 1
            error = found
        effects += map(PassOn, join_batches(batches))
        if following:
            effects += self._convert(self.core.receive(site, following, self._instant(now)))
        if error is not None:
            return [*effects, EndLink(site, error)]
        return effects + self._take_ready(site, now)

    def order(self, batch: FlowBatch, now: float) -> list[GroupEffect]:
        """Take events that the node has without a missing one before them in their flow."""
        effects: list[GroupEffect] = []
        recovered: list[Message] = []

        def flush() -> None:
            if recovered:
                messages = list(recovered)
                recovered.clear()
                site, at = messages[0].id.site, self._instant(now)
                effects.extend(self._convert(self.core.receive(site, messages, at)))

        touched = ""
        for held in hold_events(batch):
            id = self._arrived.pop((held.flow, held.event.mark), None)
            arrived = None if id is None else self._held.get(id)
            if id is not None and isinstance(arrived, HeldEvent):
                flush()
                arrived.after, arrived.upto = held.after, held.upto
                arrived.origin_node = held.origin_node
                self._inboxes[id.site].add_ready(id)
                touched = id.site
                continue
            if touched:
                # The order gets the events before it first.
                effects += self._take_ready(touched, now)
                touched = ""
            held.is_recovered = True
            entry = self._entries.read(held.event)
            message = None if entry is None else self._find_message(held, entry)
            if message is None or (recovered and recovered[0].id.site != message.id.site):
                flush()
            if message is None:
                effects += self._order_again(held, entry, now)
                continue
            missing = self._inboxes[message.id.site].pass_message(message.id)
            if missing is not None:
                flush()
                effects.append(ReportMissing(message.id.site, message.id.incarnation, *missing))
            self._held[message.id] = held
            recovered.append(message)
        flush()
        if touched:
            effects += self._take_ready(touched, now)
        return join_effects(effects)

    def _find_message(self, held: HeldEvent, entry: OrderEntry) -> Message | None:
        """Return the message of a recovered event; None if the order has had it."""
        id, inbox = MessageId(*entry.id), self._inboxes.get(entry.site)
        if inbox is None or id in self._held or inbox.is_passed(id):
            return None
        if entry.stamp is None and id.site == self._site:
            return None
        return Message(id, b"", frozenset(), stamp_of(entry))

    def _order_again(
        self, held: HeldEvent, entry: OrderEntry | None, now: float
    ) -> list[GroupEffect]:
        """Deliver a recovered event that the order has had, or will never have."""
        if entry is None or entry.site not in self._inboxes:
            # Another stack carried it before, or a site that this one does not know.
            if entry is not None and entry.site != self._site:
                held.event = self._entries.place(held.flow, held.event, self._instant(now))
            return [DeliverBatch(held.to_batch())]
        id = MessageId(*entry.id)
        if id in self._held:
            # An earlier commit failed. The order still has the message.
            held.is_recovered = self._held[id].is_recovered
            self._held[id] = held
            self._inboxes[id.site].add_ready(id)
            return self._take_ready(id.site, now)
        held.event = self._entries.place(held.flow, held.event, self._instant(now))
        return [DeliverBatch(held.to_batch())]

    def miss(self, flow: str, now: float) -> list[GroupEffect]:
        """Handle that events of a flow are in no log any more."""
        for site, origin in self.origins.items():
            if origin == origin_of(flow) and site in self._inboxes:
                self._inboxes[site].record_loss()
                return self._take_ready(site, now)
        return []

    # ----------------------------------------------------------------- links

    def disconnect(self, site: str, state: LinkState, now: float) -> list[GroupEffect]:
        """Handle that a site is suspected or disconnected from now on."""
        if state is LinkState.DISCONNECTED:
            # No live message comes from that site any more (R26).
            for id, held in self._held.items():
                if id.site == site:
                    held.is_recovered = True
        return self._convert(self.core.disconnect(site, state, self._instant(now)))

    def make_offer(self, site: str, now: float) -> int:
        return self.core.offer_clock(site, self._instant(now))

    def answer_offer(self, site: str, offer: int, now: float) -> int | None:
        """Raises `ProtocolError` for an impossible clock."""
        return self.core.answer_clock(site, offer, self._instant(now))

    def accept_answer(self, site: str, answer: int, now: float) -> list[GroupEffect] | None:
        """Count a site as connected; None: not yet, make another offer. Raises `ProtocolError`."""
        effects = self.core.connect(site, answer, self._instant(now))
        return None if effects is None else self._convert(effects)

    # ----------------------------------------------------------------- time

    def handle_timeout(self, now: float) -> list[GroupEffect]:
        effects: list[GroupEffect] = []
        for site, inbox in self._inboxes.items():
            due = inbox.next_timeout()
            if due is not None and due <= now:
                effects += self._take_ready(site, now)
        due = self.core.next_timeout()
        if due is not None and due <= now:
            effects += self._convert(self.core.handle_timeout(self._instant(now)))
        return effects

    def next_timeout(self) -> float | None:
        times = [
            self.core.next_timeout(),
            *(each.next_timeout() for each in self._inboxes.values()),
        ]
        return min((time for time in times if time is not None), default=None)

    # ----------------------------------------------------------------- state

    def restore(self, entries: Iterable[OrderEntry]) -> None:
        """Record the last entries of this site's log, in its order: what was delivered before."""
        for entry in entries:
            self._entries.restore(entry)

    def snapshot(self) -> dict[str, object]:
        return {"waiting": len(self._held), "rejected": self.rejected}

    # ----------------------------------------------------------------- within

    def _instant(self, now: float) -> Instant:
        return Instant(now, self._read_clock(now))

    def _read_message(
        self, site: str, message: Message, bound: int, now: float
    ) -> HeldEvent | HeldMessage:
        payload = decode_payload(message.payload)
        if isinstance(payload, ChannelMessage):
            if payload.channel is Channel.SITES:
                self._changes.check(site, message.id, payload.data, now)
            return HeldMessage(payload.channel, payload.data)
        return self._events.read(site, message, payload, bound)

    def _take_ready(self, site: str, now: float) -> list[GroupEffect]:
        inbox = self._inboxes[site]
        effects: list[GroupEffect] = []
        packets, passed = inbox.take_ready(now)
        for id in passed:
            held = self._held.pop(id)
            if isinstance(held, HeldEvent):
                self._arrived.pop((held.flow, held.event.mark), None)
        for packet in packets:
            if isinstance(packet, Message):
                id = packet.id
                missing = inbox.pass_message(id)
                if missing is not None:
                    effects.append(ReportMissing(id.site, id.incarnation, *missing))
        if packets:
            effects += self._convert(self.core.receive(site, packets, self._instant(now)))
        return effects

    def _convert(self, effects: Iterable[OrderEffect]) -> list[GroupEffect]:
        """Return the effects of the core for the transport; deliveries are joined."""
        found: list[GroupEffect] = []
        delivered: list[HeldEvent] = []

        def flush() -> None:
            if delivered:
                found.extend(map(DeliverBatch, join_batches(delivered)))
                delivered.clear()

        for effect in effects:
            match effect:
                case Deliver(message, stamp, late):
                    id = message.id
                    held = self._held.pop(id, None)
                    if isinstance(held, HeldMessage):
                        flush()
                        of = held.channel, id, stamp, late, held.data, held.is_recovered
                        found.append(DeliverMessage(*of))
                    elif held is not None:
                        self._entries.deliver(held, message, stamp, late)
                        delivered.append(held)
                case Send(packets, sites):
                    sent_to = self._others if sites is None else sites
                    found += self._announce_names([SendData(self._encode(packets), sent_to)])
                case Move(id, before, stamp):
                    flush()
                    found.append(MoveMessage(id, before, stamp))
                case Suspect(site, reason):
                    flush()
                    found.append(SuspectSite(site, reason))
                case Failed(error, site):
                    flush()
                    self.rejected += 1
                    found.append(EndLink(str(site), error))
        flush()
        return found

    def _announce_names(self, sends: Iterable[GroupEffect]) -> list[GroupEffect]:
        """Return encoded packets, behind the new names in them."""
        encoded = list(sends)
        names = self.codec.take_names()
        return encoded if names is None else [SendData([names], self._others), *encoded]

    def _encode(self, packets: Sequence[Packet]) -> list[bytes]:
        """Return the packets in messages of moderate size."""
        if not isinstance(packets[0], Message):
            return [self.codec.encode(packets)]
        return [self.codec.encode(part) for part in split_messages(packets)]
