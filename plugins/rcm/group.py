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
from broker.event.place import Mark
from broker.streams.contract import CarriedEvent, FlowBatch
from broker.transport.message import Message as TransportMessage
from broker.transport.order import (
    Instant,
    IOrderCore,
    IPacketCodec,
    Message,
    MessageId,
    Packet,
    Stamp,
)
from broker.transport.view import LinkState
from plugins.rcm.conversion import Conversion
from plugins.rcm.delivered_run import DeliveredRun
from plugins.rcm.effects import DeliverBatch, EndLink, GroupEffect, PassOn, ReportMissing
from plugins.rcm.entries import Entries, stamp_of
from plugins.rcm.event_reader import EventReader
from plugins.rcm.held_events import (
    Held,
    HeldEvents,
    HeldMessage,
    join_batches,
    join_effects,
)
from plugins.rcm.inbox import Inbox
from plugins.rcm.losses import FlowProgress, Losses
from plugins.rcm.own_messages import OwnMessages
from plugins.rcm.payload import Channel, ChannelMessage, decode_payload
from plugins.rcm.received_runs import ReceivedRuns
from plugins.rcm.site_change import ChangeReader
from plugins.rcm.site_list import Change


class Group:
    """The end of one site, for one process."""

    @property
    def rejected(self) -> int:
        """Wrong packets and events of other sites."""
        return self._conversion.rejected

    def count_rejected(self) -> None:
        self._conversion.rejected += 1

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
        coverage_of: Callable[[str], Mark] = lambda _: (0, 0),
    ) -> None:
        """`sites` are all sites, `patterns` the carrying patterns. `read_clock` returns the site
        clock at a monotonic time, `coverage_of` the place up to which the log has a flow."""
        self.core = core
        self.codec = codec
        self._site = site
        self._events = EventReader(patterns, entries)
        self._entries = entries
        self._read_clock = read_clock
        self._changes = ChangeReader()
        self._progress = FlowProgress(patterns, coverage_of)
        self.losses = Losses(incarnation, self._progress)
        self._conversion = Conversion(codec, entries)
        self._convert = self._conversion.convert
        self._own = OwnMessages(
            *(site, incarnation, core, entries, self.losses, self._conversion),
        )
        self._held = self._conversion.held
        self._inboxes: dict[str, Inbox] = {}
        """Also of sites that have left."""
        self._runs = ReceivedRuns(self._held, self._inboxes)
        # Messages that are no events are in no log.
        self._has_log = bool(patterns)
        self.set_sites(sites)

    def set_sites(self, sites: Collection[str], changes: Iterable[Change] = ()) -> None:
        """Set the sites of the group, and the changes that made them so.

        `disconnect` is called for sites that have left.
        """
        others = self._conversion.others = tuple(each for each in sites if each != self._site)
        for each in others:
            inbox = Inbox(self._has_all_before, has_log=self._has_log)
            self._inboxes.setdefault(each, inbox)
        numbers = [(change.site, change[3:]) for change in changes]
        for site, inbox in self._inboxes.items():
            inbox.changes = frozenset(number for each, number in numbers if each == site)

    # ----------------------------------------------------------------- own events

    def stamp(self, events: Sequence[CarriedEvent], now: float) -> list[bytes]:
        """Return the entries of own events, before their commit."""
        return self._own.stamp(events, self._instant(now))

    def revoke(self, now: float) -> list[GroupEffect]:
        """Drop the stamps of events whose commit has failed."""
        return self._own.revoke(self._instant(now))

    def publish(self, batch: FlowBatch, now: float) -> list[GroupEffect]:
        """Send committed own events."""
        return self._own.publish(batch, self._instant(now))

    def send(self, channel: Channel, data: bytes, now: float) -> list[GroupEffect]:
        """Send a message that is no event to all sites."""
        return self._own.send(channel, data, self._instant(now))

    def send_copies(
        self, channel: Channel, data: bytes, copies: Sequence[TransportMessage] | None, now: float
    ) -> list[GroupEffect]:
        """See `OwnMessages.send_copies`."""
        return self._own.send_copies(channel, data, copies, self._instant(now))

    def place(
        self, batch: FlowBatch, now: float, *, is_recovered: bool = True
    ) -> list[CarriedEvent]:
        """Return events that are delivered outside of the order, with their entries."""
        at, place = self._instant(now), self._entries.place
        placed = [place(batch.flow, each, at, is_recovered=is_recovered) for each in batch.events]
        for event in placed:
            entry = self._entries.read(event)
            if entry is not None and entry.site == self._site:
                self.losses.record_released(entry.incarnation, entry.number, event.mark)
        return placed

    def read_runs(self, events: Iterable[CarriedEvent]) -> list[DeliveredRun]:
        """Return the runs of delivered events by their entries."""
        return self._entries.read_runs(events)

    def take_back(
        self, flow: str, after: Mark, upto: Mark | None = None
    ) -> list[tuple[MessageId, Stamp]]:
        """Forget deliveries of a flow that were not logged, and return them.

        With `upto` only those up to there: the node has them, and places them later.
        """
        if upto is None:
            self._progress.record(flow, after)
        return self._entries.take_back(flow, after, upto)

    # ----------------------------------------------------------------- events of other sites

    def receive(self, site: str, data: Sequence[bytes], now: float) -> list[GroupEffect]:
        """Take messages of the link to a site."""
        inbox, bound = self._inboxes[site], self._entries.bound_of(site)
        batches: list[HeldEvents] = []
        try:
            for packet in (each for one in data for each in self.codec.decode(site, one)):
                if isinstance(packet, Message):
                    held = self._read_message(site, packet, bound, now)
                    batches += self._runs.add_new(packet, held, now)
                else:
                    inbox.add_packet(packet)
        except ProtocolError as error:
            self._conversion.rejected += 1
            return [*map(PassOn, join_batches(batches, site)), EndLink(site, error)]
        return [*map(PassOn, join_batches(batches, site)), *self._take_ready(site, now)]

    def order(self, batch: FlowBatch, now: float) -> list[GroupEffect]:
        """Take events that the node has without a missing one before them in their flow."""
        effects: list[GroupEffect] = []
        self._progress.record(batch.flow, batch.upto)
        touched: dict[str, None] = {}

        def take_touched() -> None:
            for site in list(touched):
                effects.extend(self._take_ready(site, now))
            touched.clear()

        after, index, end = batch.after, 0, len(batch.events)
        while index < end:
            id, count = self._runs.complete(batch, index, after, now)
            upto = batch.upto if index + count == end else batch.events[index + count - 1].mark
            if id is not None:
                touched[id.site] = None
            else:
                held = HeldEvents(
                    *(batch.flow, batch.origin_node, after, upto, [batch.events[index]])
                )
                if site := self._add_recovered(held, now):
                    touched[site] = None
                else:
                    # The order gets the events before it first.
                    take_touched()
                    runs = self.read_runs(held.events)
                    effects.append(DeliverBatch(held.to_batch(), runs))
            after, index = upto, index + count
        take_touched()
        return join_effects(effects)

    def _add_recovered(self, held: HeldEvents, now: float) -> str:
        """Put an event from a log into the inbox of its site, and return that. Return an empty text
        for an event that has no place there."""
        held.is_recovered = True
        (event,) = held.events
        entry = self._entries.read(event)
        if entry is None or entry.site not in self._inboxes:
            # Another stack carried it before, or a site that this one does not know.
            if entry is not None and entry.site != self._site:
                held.events = [self._entries.place(held.flow, event, self._instant(now))]
            return ""
        id, inbox = MessageId(*entry.id), self._inboxes[entry.site]
        if (present := self._runs.isolate(id)) is not None:
            # An earlier commit failed. The order still has the message.
            held.is_recovered = present.is_recovered
            inbox.add_ready(id, now)
        elif inbox.is_passed(id):
            held.events = [self._entries.place(held.flow, event, self._instant(now))]
            return ""
        else:
            inbox.add_recovered(Message(id, b"", frozenset(), stamp_of(entry)), now)
        self._held.add(id, held)
        return id.site

    def _has_all_before(self, id: MessageId) -> bool:
        """Return whether the node has all events of a site before this one that it will get."""
        origin, held = self.origins.get(id.site, ""), self._held[id]
        if isinstance(held, HeldMessage):
            # Only a loss that its site has told shows that no event is before it.
            loss = self.losses.recovered_loss(id.site, origin)
            is_next = loss is not None and (loss.incarnation, loss.number + 1) >= id[1:]
            return is_next or not self._has_log
        return bool(origin) and self._progress.lowest(origin) >= held.mark

    def is_recovering(self, site: str, now: float) -> bool:
        """Return whether messages that the links to a site have lost are still expected."""
        return self.losses.is_recovering(site, self.origins.get(site, ""), now)

    def miss_lost(self, site: str, now: float) -> list[GroupEffect]:
        """Report the messages of a site that its link has lost, and no log has."""
        loss, inbox = self.losses.recovered_loss(site, self.origins[site]), self._inboxes[site]
        if loss is None or not loss.number or inbox.is_waiting:
            return []
        last = MessageId(site, loss.incarnation, loss.number)
        missing = inbox.find_missing(last._replace(number=last.number + 1))
        if missing is None:
            return []
        inbox.pass_message(last)
        return self._miss(last, missing, now)

    # ----------------------------------------------------------------- links

    def disconnect(self, site: str, state: LinkState, now: float) -> list[GroupEffect]:
        """Handle that a site is suspected or disconnected from now on."""
        self.losses.pause(site)
        if state is LinkState.DISCONNECTED:
            # No live message comes from that site any more (R26).
            self._entries.disconnected.add(site)
            for held in self._held.of_site(site):
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
        if effects is not None:
            self._entries.disconnected.discard(site)
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

    def restore(self, events: Iterable[CarriedEvent]) -> None:
        """Record the last events of this site's log, in its order: what was delivered before."""
        for event in events:
            entry = self._entries.read(event)
            if entry is None:
                continue
            self._entries.restore(entry)
            if entry.site == self._site:
                self.losses.record_released(entry.incarnation, entry.number, event.mark)
            elif entry.site in self._inboxes:
                self._inboxes[entry.site].pass_message(MessageId(*entry.id))

    def snapshot(self) -> dict[str, object]:
        return {"waiting": len(self._held), "rejected": self._conversion.rejected}

    # ----------------------------------------------------------------- within

    def _instant(self, now: float) -> Instant:
        return Instant(now, self._read_clock(now))

    def _read_message(self, site: str, message: Message, bound: int, now: float) -> Held:
        payload = decode_payload(message.payload)
        if isinstance(payload, ChannelMessage):
            if message.length > 1:
                raise ProtocolError(f"{site} sent a run that has no events")
            if payload.channel is Channel.SITES:
                self._changes.check(site, message.id, payload.data, now)
            return HeldMessage(payload.channel, payload.data)
        return self._events.read(site, message, payload, bound)

    def _take_ready(self, site: str, now: float) -> list[GroupEffect]:
        inbox = self._inboxes[site]
        effects: list[GroupEffect] = []
        packets, passed = inbox.take_ready(now)
        for message in passed:
            self._runs.drop(message)
        begin = 0
        for index, packet in enumerate(packets):
            if isinstance(packet, Message):
                missing = inbox.pass_message(packet.id, packet.length)
                if missing is not None:
                    effects += self._receive(site, packets[begin:index], now)
                    begin, id = index, packet.id
                    effects += self._miss(id._replace(number=id.number - 1), missing, now)
        return effects + self._receive(site, packets[begin:], now)

    def _receive(self, site: str, packets: Sequence[Packet], now: float) -> list[GroupEffect]:
        return (
            self._convert(self.core.receive(site, packets, self._instant(now))) if packets else []
        )

    def _miss(self, last: MessageId, missing: tuple[int, int], now: float) -> list[GroupEffect]:
        effects = self._convert(self.core.miss_messages(last, self._instant(now)))
        return [ReportMissing(last.site, last.incarnation, *missing), *effects]
