"""The core of the sequencer variant: the lowest connected site numbers all messages (L3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from zope.interface import implementer

from broker.errors import ProtocolError
from broker.transport.order.base_core import OrderCore
from broker.transport.order.contract import IOrderCore
from broker.transport.order.effects import LATE, OrderEffect, Packet, Send
from broker.transport.order.instant import Instant
from broker.transport.order.packet import Message, MessageId, Stamp
from broker.transport.order.sequencer.delivery import Delivery, sort_ids, sort_places
from broker.transport.order.sequencer.packet import (
    Answer,
    Begin,
    Epoch,
    Follow,
    Known,
    Numbers,
    Places,
    Refusal,
    Request,
    Takeover,
)
from broker.transport.order.sequencer.takeover import PendingTakeover
from broker.transport.order.settings import OrderSettings
from broker.transport.view import LinkState

#: A counter further ahead of the highest known one is an error.
MOST_AHEAD = 2**20


@implementer(IOrderCore)
class SequencerCore(OrderCore):
    """A member of an epoch, or its sequencer.

    Each site follows the lowest site that it sees as connected. A site that sees no lower one is a
    sequencer. When the connected sites change it begins an epoch: it stops numbering, asks all
    connected sites for the places that they know, and numbers on when they have answered.

    A site whose lowest connected site is itself a follower is in no epoch. It requests numbers
    from that site, which passes the request on (non-transitive partitions).
    """

    def __init__(
        self, site: str, incarnation: int, settings: OrderSettings, floor: int = 0
    ) -> None:
        super().__init__(site, incarnation, settings)
        self._counter = floor  # the highest known
        self._promised = Epoch(floor, "")
        # The epoch of this member, and the number after the last known one.
        self._epoch: Epoch | None = None
        self._next = 0
        self._members: frozenset[str] = frozenset()  # of this sequencer's epoch
        self._takeover: PendingTakeover | None = None
        self._delivery = Delivery(settings.history)
        self._stuck_until: float | None = None  # the first entry waits for its message
        # Messages that other sites wait for, and that this sequencer must number.
        self._requested: set[MessageId] = set()
        self._request_at: float | None = None

    # ----------------------------------------------------------------- of the interface

    @property
    def floor(self) -> int:
        return self._counter

    def submit(self, payloads: Sequence[bytes], at: Instant) -> list[OrderEffect]:
        effects: list[OrderEffect] = []
        for payload in payloads:
            message = Message(self._name_message(), payload, self.connected)
            effects.append(Send(message))
            self._delivery.add_message(message, at.now)
        return effects + self._advance(at)

    def offer_clock(self, site: str, at: Instant) -> int:
        return self._counter

    def answer_clock(self, site: str, offer: int, at: Instant) -> int:
        self._raise_counter(site, offer)
        return self._counter

    def connect(self, site: str, answer: int, at: Instant) -> list[OrderEffect] | None:
        self._raise_counter(site, answer)
        leader = self._leader
        self.connected |= {site}
        return self._membership_changed(site, leader, at)

    def disconnect(self, site: str, state: LinkState, at: Instant) -> list[OrderEffect]:
        if site not in self.connected:
            return []
        leader = self._leader
        self.connected -= {site}
        return self._membership_changed(site, leader, at)

    def handle_timeout(self, at: Instant) -> list[OrderEffect]:
        return self._request_numbers(at) + self._advance(at)

    def next_timeout(self) -> float | None:
        times = [] if self._request_at is None else [self._request_at]
        if self._takeover is not None:
            times.append(self._takeover.deadline)
        if self._stuck_until is not None:
            times.append(self._stuck_until)
        return min(times, default=None)

    # ----------------------------------------------------------------- of packets

    def _accept_packet(self, site: str, packet: Packet, at: Instant) -> Iterable[OrderEffect]:
        match packet:
            case Message(stamp=None):
                return self._accept_message(site, packet, at)
            case Numbers(epoch, first, ids):
                self._accept_numbers(site, epoch, first, ids, at)
            case Follow(counter):
                return self._accept_follower(site, counter)
            case Takeover():
                return [Send(self._answer_takeover(site, packet, at), (site,))]
            case Answer():
                self._accept_answer(site, packet)
            case Refusal(epoch, counter):
                self._accept_refusal(site, epoch, counter)
            case Begin(epoch, places):
                self._check_sequencer(site, epoch)
                if epoch == self._promised and site == self._leader:
                    self._epoch, self._next = epoch, 0
                    self._adopt_places(places, at)
            case Request(ids):
                return self._answer_request(site, ids)
            case Known(places):
                if site == self._leader:
                    return self._deliver_known(places)
            case _:
                raise ProtocolError(f"{site} sent a packet of another variant")
        return ()

    def _accept_message(self, site: str, message: Message, at: Instant) -> Iterable[OrderEffect]:
        if not self._is_new(site, message):
            return ()
        self._delivery.add_message(message, at.now)
        place = self._delivery.place_of(message.id)
        if place is None:
            return ()
        is_late = self._history.is_late(place, message.id.number)
        effects = self._deliver_from(message.id, place)
        if is_late and site in self.connected and self.site in message.connected:
            effects.insert(0, self._suspect(site, LATE))
        return effects

    def _accept_numbers(
        self, site: str, epoch: Epoch, first: int, ids: Sequence[MessageId], at: Instant
    ) -> None:
        self._check_sequencer(site, epoch)
        if epoch != self._epoch or site != self._leader:
            return  # of an epoch that this site has left
        if first != self._next:
            raise ProtocolError(f"{site} sent number {first} after {self._next - 1}")
        self._next += len(ids)
        for number, id in enumerate(ids, first):
            self._delivery.add_entry(epoch.stamp(number), id, at.now)

    @staticmethod
    def _check_sequencer(site: str, epoch: Epoch) -> None:
        if epoch.sequencer != site:
            raise ProtocolError(f"{site} is not the sequencer of {epoch}")

    # ----------------------------------------------------------------- of epochs

    @property
    def _leader(self) -> str:
        """The lowest connected site."""
        return min(self.connected | {self.site})

    def _raise_counter(self, site: str, counter: int) -> None:
        if counter > self._counter + MOST_AHEAD:
            raise ProtocolError(f"the epoch {counter} of {site} is too far ahead")
        self._counter = max(self._counter, counter)

    def _membership_changed(self, site: str, before: str, at: Instant) -> list[OrderEffect]:
        """Begin an epoch after suspicion or return of a site, or follow another sequencer."""
        leader = self._leader
        effects: list[OrderEffect] = []
        if leader != self.site:
            self._takeover = None
            if leader != before or leader == site:
                self._epoch = None
                effects.append(Send(Follow(self._counter), (leader,)))
        elif self._takeover is None:
            self._epoch = None
        else:
            self._takeover.remove_site(site)
            if site in self.connected:
                effects.append(self._await_answer(self._takeover, site))
        return effects + self._advance(at)

    def _take_over(self, at: Instant) -> list[OrderEffect]:
        """Ask all connected sites for their places; number nothing until they have answered."""
        deadline = self._takeover.deadline if self._takeover else at.now + self._settings.patience
        self._counter += 1
        self._promised = Epoch(self._counter, self.site)
        self._takeover = takeover = PendingTakeover(self._promised, deadline)
        self._drop_entries(at)
        return [self._await_answer(takeover, site) for site in sorted(self.connected)]

    def _await_answer(self, takeover: PendingTakeover, site: str) -> Send:
        takeover.remove_site(site)
        takeover.awaited.add(site)
        return Send(Takeover(takeover.epoch, dict(self._delivery.delivered)), (site,))

    def _answer_takeover(self, site: str, packet: Takeover, at: Instant) -> Answer | Refusal:
        epoch = packet.epoch
        self._check_sequencer(site, epoch)
        self._raise_counter(site, epoch.counter)
        if site != self._leader:
            return Refusal(epoch, 0)
        if epoch <= self._promised:
            return Refusal(epoch, self._promised.counter)
        self._promised, self._epoch = epoch, None
        self._drop_entries(at)
        delivery = self._delivery
        places = sort_places(delivery.places_beyond(packet.delivered))
        return Answer(epoch, dict(delivery.delivered), places, sort_ids(delivery.unnumbered))

    def _accept_follower(self, site: str, counter: int) -> Iterable[OrderEffect]:
        self._raise_counter(site, counter)
        if self._leader != self.site:
            # The sequencer's epoch must be above those of sites behind this one.
            if counter > self._promised.counter:
                return [Send(Follow(counter), (self._leader,))]
        elif site in self.connected:
            if self._takeover is None:
                self._epoch = None
            elif site not in self._takeover.awaited:
                return [self._await_answer(self._takeover, site)]
        return ()

    def _accept_answer(self, site: str, answer: Answer) -> None:
        takeover = self._takeover
        if takeover is None:
            if answer.epoch == self._epoch and site in self.connected:
                self._epoch = None  # too late for this epoch
        elif answer.epoch == takeover.epoch and site in takeover.awaited:
            takeover.awaited.discard(site)
            takeover.answers[site] = answer

    def _accept_refusal(self, site: str, epoch: Epoch, counter: int) -> None:
        self._raise_counter(site, counter)
        takeover = self._takeover
        if takeover is not None and epoch == takeover.epoch:
            takeover.remove_site(site)
            takeover.is_refused |= counter >= epoch.counter

    def _begin_epoch(self, takeover: PendingTakeover, at: Instant) -> list[OrderEffect]:
        delivery = self._delivery
        self._takeover, self._epoch, self._next = None, takeover.epoch, 0
        self._members = frozenset(takeover.answers)
        merged = takeover.merge_places(delivery.places_beyond({}))
        effects: list[OrderEffect] = []
        for site, answer in sorted(takeover.answers.items()):
            places = sort_places(
                {id: stamp for id, stamp in merged.items() if not answer.has_delivered(id)}
            )
            effects.append(Send(Begin(takeover.epoch, places), (site,)))
        self._requested |= takeover.waiting_ids()
        self._adopt_places(sort_places(merged), at)
        return effects

    def _number_messages(self, at: Instant) -> list[OrderEffect]:
        delivery = self._delivery
        new = [id for id in self._requested if delivery.is_without_place(id)]
        self._requested.clear()
        ids = sort_ids([*new, *delivery.unnumbered])
        if not ids or self._epoch is None:
            return []
        first, self._next = self._next, self._next + len(ids)
        for number, id in enumerate(ids, first):
            delivery.add_entry(self._epoch.stamp(number), id, at.now)
        members = tuple(sorted(self._members))
        return [Send(Numbers(self._epoch, first, ids), members)] if members else []

    # ----------------------------------------------------------------- of requests

    def _request_numbers(self, at: Instant) -> list[OrderEffect]:
        if self._request_at is None or at.now < self._request_at:
            return []
        self._request_at = None
        before = at.now - self._settings.request_after
        ids = [id for id, since in self._delivery.unnumbered.items() if since <= before]
        return [Send(Request(sort_ids(ids)), (self._leader,))] if ids else []

    def _answer_request(self, site: str, ids: Sequence[MessageId]) -> Iterable[OrderEffect]:
        if site not in self.connected:
            return ()
        delivery = self._delivery
        others = [id for id in ids if delivery.is_without_place(id)]
        if self._leader == self.site:
            # The site gets the places with the next epoch: one by one they would overtake others.
            self._requested.update(others)
            return ()
        known = {id: place for id in ids if (place := delivery.place_of(id)) is not None}
        effects = [Send(Known(sort_places(known)), (site,))] if known else []
        if strange := [id for id in others if id not in delivery.unnumbered]:
            effects.append(Send(Request(sort_ids(strange)), (self._leader,)))
        return effects

    # ----------------------------------------------------------------- of delivery

    def _advance(self, at: Instant) -> list[OrderEffect]:
        effects: list[OrderEffect] = []
        if self._leader == self.site:
            takeover = self._takeover
            if takeover.is_refused if takeover is not None else self._epoch is None:
                effects += self._take_over(at)
            if self._takeover is not None and self._takeover.is_complete(at.now):
                effects += self._begin_epoch(self._takeover, at)
            if self._takeover is None:
                effects += self._number_messages(at)
        effects += self._deliver_entries(at)
        if self._leader == self.site or not self._delivery.unnumbered:
            self._request_at = None
        elif self._request_at is None:
            self._request_at = at.now + self._settings.request_after
        return effects

    def _drop_entries(self, at: Instant) -> None:
        self._delivery.drop_entries(at.now)
        self._stuck_until = None

    def _adopt_places(self, places: Places, at: Instant) -> None:
        """Let places of earlier epochs precede the numbers of this one."""
        for stamp, id in places:
            self._delivery.add_entry(stamp, id, at.now)

    def _deliver_known(self, places: Places) -> list[OrderEffect]:
        """Deliver requested messages. Those between them may be missing here."""
        effects: list[OrderEffect] = []
        for stamp, id in places:
            if self._delivery.is_waiting(id) and not self._delivery.is_numbered(id):
                effects += self._deliver_from(id, stamp)
        return effects

    def _deliver_entries(self, at: Instant) -> list[OrderEffect]:
        effects: list[OrderEffect] = []
        delivery = self._delivery
        self._stuck_until = None
        while delivery.entries:
            stamp, id, since = delivery.entries[0]
            if delivery.is_waiting(id):
                effects += self._deliver_from(id, stamp)
            elif not delivery.is_delivered(id):
                end = since + self._settings.patience
                if self._may_arrive(id) and at.now < end:
                    self._stuck_until = end
                    return effects
                delivery.remember(id, stamp)
            delivery.pop_entry()
        return effects

    def _may_arrive(self, id: MessageId) -> bool:
        """Return False if its site is not connected, or has sent a later message."""
        origin = self._origins.get(id.site)
        last = (0, 0) if origin is None else (origin.incarnation, origin.number)
        return id.site in self.connected and last < id[1:]

    def _deliver_from(self, id: MessageId, stamp: Stamp) -> list[OrderEffect]:
        return [self._deliver(*each) for each in self._delivery.take(id, stamp)]
