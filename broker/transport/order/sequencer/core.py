"""The core of the sequencer variant: the lowest connected site numbers all messages (L3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from zope.interface import implementer

from broker.errors import ProtocolError
from broker.transport.order.contract import IOrderCore
from broker.transport.order.effects import OVERDUE, OrderEffect, Packet, Send, Suspect
from broker.transport.order.instant import Instant
from broker.transport.order.negotiation import Negotiation
from broker.transport.order.packet import Message, Stamp
from broker.transport.order.sequencer.delivery import sort_headers
from broker.transport.order.sequencer.follower_core import FollowerCore
from broker.transport.order.sequencer.packet import (
    MOST_HEADERS,
    NUMBER_BITS,
    Answer,
    Begin,
    Epoch,
    Follow,
    Header,
    Known,
    Left,
    Numbers,
    Raised,
    Refusal,
    Request,
    Takeover,
)
from broker.transport.order.sequencer.place_table import sort_places
from broker.transport.order.sequencer.takeover import PendingTakeover
from broker.transport.order.settings import OrderSettings
from broker.transport.view import LinkState

#: Of one epoch.
MOST_NUMBERS = 2 ** (NUMBER_BITS - 1)
#: Counters by which the second answer to a site leads its offer.
LEAD = 8


@implementer(IOrderCore)
class SequencerCore(FollowerCore):
    """A member of an epoch, or its sequencer.

    Each site follows the lowest site that it sees as connected. A site that sees no lower one is a
    sequencer. When the connected sites change it begins an epoch: it stops numbering, asks all
    connected sites for the places that they know, and numbers on when they have answered.

    A follower whose messages wait for too long suspects a sequencer that does not answer.

    A site whose lowest connected site is itself a follower is in no epoch. It requests numbers
    from that site, which passes the request on (non-transitive partitions).
    """

    def __init__(
        self, site: str, incarnation: int, settings: OrderSettings, floor: int = 0
    ) -> None:
        super().__init__(site, incarnation, settings, floor)
        self._members: frozenset[str] = frozenset()  # of this sequencer's epoch
        self._takeover: PendingTakeover | None = None
        # Numbers that this sequencer has sent, and whose messages it did not deliver.
        self._sent_numbers: list[tuple[Stamp, Header]] = []
        self._was_connected = False
        # Since all answers to a takeover came in time; each one doubles the patience.
        self._late_answers = 0
        self._negotiation = Negotiation(site)

    # ----------------------------------------------------------------- of the interface

    @property
    def floor(self) -> int:
        return self._counter

    def offer_clock(self, site: str, at: Instant) -> int:
        self._negotiation.begin(site, at.now)
        return self._counter

    def answer_clock(self, site: str, offer: int, at: Instant) -> int | None:
        self._raise_counter(site, offer)
        negotiation, lead = self._negotiation, 0
        if negotiation.count_answered(site):
            # Other connections have raised what the site has reached meanwhile.
            if negotiation.goes_first(site, at.now):
                return None
            lead = negotiation.lead_of(site, LEAD)
        self._counter = max(self._counter, offer + lead)
        self._leave_epochs(offer + lead)
        negotiation.record_answer(site)
        return min([self._counter, *(each.counter - 1 for each in self._own_epochs)])

    def connect(self, site: str, answer: int, at: Instant) -> list[OrderEffect] | None:
        self._raise_counter(site, answer)
        if self._reached > answer:
            return None
        self._negotiation.connect(site)
        self._left_epochs.add_site(site, answer)
        self.connected |= {site}
        self._was_connected = True
        return self._membership_changed(site, at)

    def disconnect(self, site: str, state: LinkState, at: Instant) -> list[OrderEffect]:
        self._negotiation.disconnect(site)
        if site not in self.connected:
            return []
        self.connected -= {site}
        self._left_epochs.remove_site(site)
        # After its return the site is not suspected for messages that it sent before.
        self._overdue = {each for each in self._overdue if each.site != site}
        return self._membership_changed(site, at)

    def handle_timeout(self, at: Instant) -> list[OrderEffect]:
        if self._give_up_at is not None and at.now >= self._give_up_at:
            self._followed_since = at.now
            return [*self._advance(at), Suspect(self._leader, OVERDUE)]
        requests = self._request_numbers(at)
        return requests + self._advance(at) + self._suspect_sites_between(at)

    def _timeouts(self) -> tuple[float | None, ...]:
        deadline = None if self._takeover is None else self._takeover.deadline
        return self._request_at, self._stuck_until, self._give_up_at, deadline, self._answer_due

    # ----------------------------------------------------------------- of packets

    def _accept_packet(self, site: str, packet: Packet, at: Instant) -> Iterable[OrderEffect]:
        match packet:
            case Message(stamp=None):
                return self._accept_message(site, packet, at)
            case Numbers(epoch, first, headers):
                return self._accept_numbers(site, epoch, first, headers, at)
            case Follow(counter):
                return self._accept_follower(site, counter)
            case Takeover():
                return [Send((self._answer_takeover(site, packet, at),), (site,))]
            case Raised(counter):
                self._raise_counter(site, counter)
                self._leave_epochs(counter)
                return [Send((Left(counter),), (site,))]
            case Left(counter):
                self._left_epochs.add_left((site,), counter)
            case Answer():
                self._accept_answer(site, packet)
            case Refusal(epoch, counter):
                self._accept_refusal(site, epoch, counter)
            case Begin(epoch, places, known, members):
                self._check_sequencer(site, epoch)
                if epoch == self._promised and site == self._leader:
                    self._check_places(site, places)
                    self._epoch, self._next, self._depth = epoch, 0, 0
                    self._entered = epoch.counter
                    self._left_epochs.add_left(members, epoch.counter)
                    return self._adopt_places(places, known, at)
            case Request(headers):
                return self._answer_request(site, headers)
            case Known(places, depth):
                self._check_places(site, places)
                if site == self._leader:
                    return self._deliver_answer(places, depth)
            case _:
                raise ProtocolError(f"{site} sent a packet of another variant")
        return ()

    def _accept_numbers(
        self, site: str, epoch: Epoch, first: int, headers: Sequence[Header], at: Instant
    ) -> Iterable[OrderEffect]:
        self._check_sequencer(site, epoch)
        if epoch != self._epoch or site != self._leader:
            return ()  # of an epoch that this site has left
        if first != self._next:
            raise ProtocolError(f"{site} sent number {first} after {self._next - 1}")
        self._drop_unsent(site, headers)  # their numbers are passed over
        self._next += len(headers)
        effects: list[OrderEffect] = []
        for number, header in enumerate(headers, first):
            effects += self._add_place(epoch.stamp(number), header, at)
        return effects

    # ----------------------------------------------------------------- of epochs

    def _membership_changed(self, site: str, at: Instant) -> list[OrderEffect]:
        """Begin an epoch after suspicion or return of a site, or follow another sequencer."""
        before = self._leader
        self._leader = leader = min(self.connected | {self.site})
        effects: list[OrderEffect] = []
        if leader != self.site:
            self._takeover = None
            if leader != before or leader == site:
                self._epoch, self._followed_since = None, at.now
                self._depth = 0
                self._drop_entries(at)  # the new leader does not know their numbers
                effects.append(Send((Follow(self._counter),), (leader,)))
        elif self._takeover is None:
            self._epoch = None
        else:
            self._takeover.remove_site(site)
            if site in self.connected:
                effects.append(self._await_answer(self._takeover, site))
        return effects + self._advance(at)

    def _take_over(self, at: Instant) -> list[OrderEffect]:
        """Ask all connected sites for their places; number nothing until they have answered."""
        settings = self._settings
        patience = min(settings.patience * 2**self._late_answers, settings.entry_patience)
        deadline = self._takeover.deadline if self._takeover else at.now + patience
        self._counter += 1
        self._promised = Epoch(self._counter, self.site)
        self._takeover = takeover = PendingTakeover(self._promised, deadline)
        self._sent_numbers += (each[:2] for each in self._delivery.entries)
        self._drop_entries(at)
        return [self._await_answer(takeover, site) for site in sorted(self.connected)]

    def _await_answer(self, takeover: PendingTakeover, site: str) -> Send:
        takeover.remove_site(site)
        takeover.awaited.add(site)
        known = dict(self._delivery.places.known)
        return Send((Takeover(takeover.epoch, dict(self._delivery.delivered), known),), (site,))

    @property
    def _own_epochs(self) -> list[Epoch]:
        """Epochs in which this site gives numbers, or will do so."""
        takeover = self._takeover
        found = [] if takeover is None or takeover.is_refused else [takeover.epoch]
        if self._leader == self.site and self._epoch is not None:
            found.append(self._epoch)
        return found

    def _leave_epochs(self, counter: int) -> None:
        """Give no numbers up to this counter any more: another site may have delivered them.

        Of two epochs with one counter, the one of the higher site is above the other.
        """
        if self._leader == self.site and self._epoch and self._epoch.counter <= counter:
            self._epoch = None
        if self._takeover is not None and self._takeover.epoch.counter <= counter:
            self._takeover.is_refused = True

    def _answer_takeover(self, site: str, packet: Takeover, at: Instant) -> Answer | Refusal:
        epoch = packet.epoch
        self._check_sequencer(site, epoch)
        self._check_delivered(site, packet.delivered)
        self._raise_counter(site, epoch.counter)
        if site != self._leader:
            return Refusal(epoch, 0)
        if epoch <= self._promised or epoch.counter <= self._reached:
            return Refusal(epoch, max(self._promised.counter, self._reached))
        self._promised, self._epoch, self._is_contradicted = epoch, None, False
        self._sent_numbers.clear()
        self._followed_since = at.now  # the sequencer is at work
        self._drop_entries(at)
        delivery = self._delivery
        places = sort_places(delivery.places.select(packet.delivered, packet.known))
        waiting = sort_headers(delivery.unnumbered_headers())[:MOST_HEADERS]
        numbers = dict(delivery.places.known)
        return Answer(epoch, dict(delivery.delivered), numbers, places[-MOST_HEADERS:], waiting)

    def _accept_follower(self, site: str, counter: int) -> Iterable[OrderEffect]:
        self._raise_counter(site, counter)
        if self._leader != self.site:
            # The sequencer's epoch must be above those of sites behind this one.
            if counter > self._promised.counter:
                return [Send((Follow(counter),), (self._leader,))]
        elif site in self.connected:
            if self._takeover is None:
                self._epoch = None
            elif site not in self._takeover.awaited:
                return [self._await_answer(self._takeover, site)]
        return ()

    def _accept_answer(self, site: str, answer: Answer) -> None:
        if len(self._drop_unsent(site, answer.waiting)) < len(answer.waiting):
            raise ProtocolError(f"{site} has a message that was never sent")
        self._check_places(site, answer.places)
        if answer.places:
            self._leave_epochs(answer.places[-1][0].time >> NUMBER_BITS)
        self._check_delivered(site, answer.delivered)
        takeover = self._takeover
        if takeover is None:
            if answer.epoch == self._epoch and site in self.connected:
                self._epoch = None  # too late for this epoch
                self._late_answers += 1
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
        self._is_contradicted = False
        self._members = frozenset(takeover.answers)
        if not takeover.awaited:
            self._late_answers = 0
        # A member whose answer is missing may have delivered by them.
        table = delivery.places
        merged = takeover.merge_places(table.select({}, {}), self._sent_numbers)
        known = takeover.merge_known(table.known)
        self._sent_numbers.clear()
        moves = self._adopt_places(merged[-MOST_HEADERS:], known, at)
        begins = takeover.make_begins(merged, table, known)
        self._requested |= takeover.waiting_headers()
        return [*(Send((begin,), (site,)) for site, begin in begins), *moves]

    def _number_messages(self, at: Instant) -> list[OrderEffect]:
        delivery = self._delivery
        new = [each for each in self._requested if delivery.is_without_place(each.id)]
        self._requested.clear()
        waiting = filter(self._may_number, delivery.unnumbered_headers())
        headers = sort_headers([*new, *waiting])
        if self._epoch is None:
            return []
        members = tuple(sorted(self._members))
        effects: list[OrderEffect] = []
        for begin in range(0, len(headers), MOST_HEADERS):
            part = headers[begin : begin + MOST_HEADERS]
            first, self._next = self._next, self._next + len(part)
            for number, header in enumerate(part, first):
                delivery.add_entry(self._epoch.stamp(number), header, at.now)
            if members:
                effects.append(Send((Numbers(self._epoch, first, part),), members))
        return effects

    def _may_number(self, header: Header) -> bool:
        """Return False for a message that other sites may have numbered before this one came."""
        id = header.id
        if self.connected or id.site == self.site:
            return True
        return self._was_connected and not self._delivery.is_unplaced(id)

    def _take_number(self, at: Instant) -> Stamp:
        self._advance(at)  # it begins an epoch, if there is none
        assert self._epoch is not None
        self._next += 1
        return self._epoch.stamp(self._next - 1)

    # ----------------------------------------------------------------- of delivery

    def _advance(self, at: Instant) -> list[OrderEffect]:
        effects = self._leave_passed_epoch()
        if self._leader == self.site:
            takeover = self._takeover
            if takeover is not None:
                is_due = takeover.is_refused or takeover.epoch.counter <= self._reached
            else:
                is_due = self._epoch is None or self._next >= MOST_NUMBERS
            if is_due:
                effects += self._take_over(at)
            if self._takeover and (self._takeover.is_complete(at.now) or self._is_overdue):
                effects += self._begin_epoch(self._takeover, at)
            if self._takeover is None:
                effects += self._number_messages(at)
        effects += self._ask_sites_between(at)
        effects += self._deliver_entries(at)
        effects += self._leave_passed_epoch()
        if self._leader == self.site and self._epoch is None and self._takeover is None:
            return effects + self._advance(at)
        self._plan_requests(at)
        return effects

    def _leave_passed_epoch(self) -> list[OrderEffect]:
        """Leave an epoch whose numbers are late, since places of a higher one came otherwise, or
        whose sequencer does not know all places."""
        is_passed = self._epoch is not None and self._epoch.counter < self._reached
        if self._epoch is None or not (is_passed or self._is_contradicted):
            return []
        self._epoch, self._is_contradicted = None, False
        if self._leader == self.site:
            return []
        return [Send((Follow(self._counter),), (self._leader,))]
