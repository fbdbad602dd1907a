"""A site's end of a group: the order above the links, and the events of its messages.

An event's way, at its own site and at another one:

    stamp -> (commit) -> publish -> SendData, and later DeliverBatch
    receive -> PassOn -> (the node has all events before it) -> order -> later DeliverBatch

Methods with effects are never re-entered: the transport applies all effects of a call before the
next call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from broker.cluster.address import Address
from broker.errors import BadName, ProtocolError
from broker.event.flow import origin_of
from broker.event.order_entry import OrderEntry
from broker.event.place import Mark
from broker.streams.contract import CarriedEvent, FlowBatch
from broker.transport.effects import Failed
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
from plugins.rcm.effects import (
    DeliverBatch,
    EndLink,
    GroupEffect,
    MoveMessage,
    PassOn,
    ReportMissing,
    SendData,
    SuspectSite,
)
from plugins.rcm.entries import Entries, stamp_of
from plugins.rcm.held_events import HeldEvent, hold_events, join_batches
from plugins.rcm.inbox import Inbox
from plugins.rcm.payload import decode_payload, encode_payload

#: Nodes move seldom.
MOST_ADDRESSES = 1_000
#: Of the documents in one message of a link, unless one is larger.
MOST_MESSAGE_BYTES = 256 << 10


class Group:
    """The end of one site, for one process."""

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
        self.origins: dict[str, str] = {}
        """Log of each site, by its handshake."""
        self._site = site
        self._incarnation = incarnation
        self._others = tuple(each for each in sites if each != site)
        self._patterns = frozenset(patterns)
        self._addresses: set[str] = set()
        """Addresses of nodes that were checked."""
        self._codec = codec
        self._entries = entries
        self._read_clock = read_clock
        self._inboxes = {each: Inbox() for each in self._others}
        self._held: dict[MessageId, HeldEvent] = {}
        self._arrived: dict[tuple[str, Mark], MessageId] = {}
        """Ids of received messages that the node has not passed back."""
        self._stamped: dict[Mark, tuple[int, bytes]] = {}
        """Numbers, and records without entries, of own events that are being committed."""
        self._committed: dict[int, tuple[HeldEvent, bytes]] = {}
        """Own events and records by number, behind others that are being committed."""
        self._released = 0
        """Number of the last released message."""

    # ----------------------------------------------------------------- own events

    def stamp(self, events: Sequence[CarriedEvent], now: float) -> list[bytes]:
        """Return the entries of own events, before their commit."""
        reserved = self.core.stamp(len(events), self._instant(now))
        entries = []
        for event, (number, stamp) in zip(events, reserved, strict=True):
            self._stamped[event.mark] = number, event.record
            id = MessageId(self._site, self._incarnation, number)
            entries.append(self._entries.encode(id, stamp))
        return entries

    def revoke(self, now: float) -> list[GroupEffect]:
        """Drop the stamps of events whose commit has failed."""
        self._stamped.clear()
        return self._convert(self.core.revoke(self._instant(now)))

    def publish(self, batch: FlowBatch, now: float) -> list[GroupEffect]:
        """Send committed own events."""
        for held in hold_events(batch):
            stamped = self._stamped.pop(held.event.mark, None)
            if stamped is not None:
                held.has_entry = True
                self._committed[stamped[0]] = held, stamped[1]
        payloads = []
        while (committed := self._committed.pop(self._released + 1, None)) is not None:
            self._released += 1
            self._held[MessageId(self._site, self._incarnation, self._released)] = committed[0]
            payloads.append(encode_payload(committed[0].to_payload(committed[1])))
        return self._convert(self.core.release(payloads, self._instant(now))) if payloads else []

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
        inbox = self._inboxes[site]
        batches: list[HeldEvent] = []
        try:
            for packet in (each for one in data for each in self._codec.decode(site, one)):
                if isinstance(packet, Message):
                    held = self._read_message(site, packet)
                    if inbox.is_full or inbox.is_passed(packet.id):
                        # It comes from a log, or has come from there.
                        continue
                    self._held[packet.id] = held
                    self._arrived[held.flow, held.event.mark] = packet.id
                    batches.append(held)
                inbox.add_packet(packet)
        except ProtocolError as error:
            self.rejected += 1
            return [*map(PassOn, join_batches(batches)), EndLink(site, error)]
        return [*map(PassOn, join_batches(batches)), *self._take_ready(site, now)]

    def order(self, batch: FlowBatch, now: float) -> list[GroupEffect]:
        """Take events that the node has without a missing one before them in their flow."""
        effects: list[GroupEffect] = []
        touched: dict[str, None] = {}

        def take_touched() -> list[GroupEffect]:
            sites = list(touched)
            touched.clear()
            return [effect for site in sites for effect in self._take_ready(site, now)]

        for held in hold_events(batch):
            id = self._arrived.pop((held.flow, held.event.mark), None)
            arrived = None if id is None else self._held.get(id)
            if id is not None and arrived is not None:
                held.event, held.has_entry = arrived.event, arrived.has_entry
                held.is_recovered = arrived.is_recovered
                self._held[id] = held
                self._inboxes[id.site].add_ready([id])
                touched[id.site] = None
            else:
                # The order gets the events before it first.
                effects += take_touched()
                held.is_recovered = True
                effects += self._order_recovered(held, now)
        return effects + take_touched()

    def _order_recovered(self, held: HeldEvent, now: float) -> list[GroupEffect]:
        entry = self._entries.read(held.event)
        inbox = None if entry is None else self._inboxes.get(entry.site)
        if entry is None or inbox is None:
            # Another stack carried it before.
            return [DeliverBatch(held.to_batch())]
        id = MessageId(*entry.id)
        if id in self._held:
            # An earlier commit failed. The order still has the message.
            held.is_recovered = self._held[id].is_recovered
            self._held[id] = held
            inbox.add_ready([id])
            return self._take_ready(id.site, now)
        if inbox.is_passed(id) or (entry.stamp is None and id.site == self._site):
            held.event = self._entries.place(held.flow, held.event, self._instant(now))
            return [DeliverBatch(held.to_batch())]
        self._held[id] = held
        message = Message(id, b"", frozenset(), stamp_of(entry))
        effects = self._pass_message(inbox, id)
        return effects + self._convert(self.core.receive(id.site, [message], self._instant(now)))

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

    def _read_message(self, site: str, message: Message) -> HeldEvent:
        payload = decode_payload(message.payload)
        origin = self.origins.get(site)
        if origin is None:
            raise ProtocolError(f"{site} sent an event before its handshake")
        if payload.pattern not in self._patterns:
            raise ProtocolError(f"{site} sent an event of the pattern {payload.pattern!r}")
        self._check_address(payload.origin_node)
        flow = payload.flow_of(origin)
        # Its entry is not sent: the packet has the same.
        entry = self._entries.encode(message.id, message.stamp)
        event = payload.event.with_annotation(entry)
        node, after, upto = payload.origin_node, payload.after, payload.upto
        return HeldEvent(flow, node, after, upto, event, has_entry=True)

    def _check_address(self, text: str) -> None:
        """Raises `ProtocolError`."""
        if text not in self._addresses:
            try:
                Address.parse(text)
            except BadName as wrong:
                raise ProtocolError(f"address of a node: {wrong}") from None
            if len(self._addresses) >= MOST_ADDRESSES:
                self._addresses.clear()
            self._addresses.add(text)

    def _take_ready(self, site: str, now: float) -> list[GroupEffect]:
        inbox = self._inboxes[site]
        effects: list[GroupEffect] = []
        packets, passed = inbox.take_ready(now)
        for id in passed:
            held = self._held.pop(id)
            self._arrived.pop((held.flow, held.event.mark), None)
        for packet in packets:
            if isinstance(packet, Message):
                effects += self._pass_message(inbox, packet.id)
        if packets:
            effects += self._convert(self.core.receive(site, packets, self._instant(now)))
        return effects

    def _pass_message(self, inbox: Inbox, id: MessageId) -> list[GroupEffect]:
        missing = inbox.pass_message(id)
        return [] if missing is None else [ReportMissing(id.site, id.incarnation, *missing)]

    def _convert(self, effects: Iterable[OrderEffect]) -> list[GroupEffect]:
        """Return the effects of the core for the transport; deliveries are joined."""
        found: list[GroupEffect] = []
        delivered: list[HeldEvent] = []

        def flush() -> None:
            found.extend(map(DeliverBatch, join_batches(delivered)))
            delivered.clear()

        for effect in effects:
            match effect:
                case Send(packets, sites):
                    sent_to = self._others if sites is None else sites
                    found.append(SendData(self._encode(packets), sent_to))
                case Deliver(message, stamp, late):
                    held = self._held.pop(message.id, None)
                    if held is not None:
                        self._entries.deliver(held, message, stamp, late)
                        delivered.append(held)
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

    def _encode(self, packets: Sequence[Packet]) -> list[bytes]:
        """Return the packets in messages of moderate size."""
        if not isinstance(packets[0], Message):
            return [self._codec.encode(packets)]
        found: list[bytes] = []
        part: list[Packet] = []
        size = 0
        for message in packets:
            assert isinstance(message, Message)
            if part and size + len(message.payload) > MOST_MESSAGE_BYTES:
                found.append(self._codec.encode(part))
                part, size = [], 0
            part.append(message)
            size += len(message.payload)
        return [*found, self._codec.encode(part)]
