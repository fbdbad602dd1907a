"""Delivery in the order of numbers, for the sequencer variant (L3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from broker.errors import ProtocolError
from broker.transport.order.base_core import OrderCore
from broker.transport.order.effects import LATE, Deliver, Move, OrderEffect, Place, Suspect
from broker.transport.order.instant import Instant
from broker.transport.order.packet import Message, MessageId, Stamp
from broker.transport.order.sequencer.delivery import Delivery
from broker.transport.order.sequencer.packet import (
    MOST_HEADERS,
    NUMBER_BITS,
    Delivered,
    Epoch,
    Header,
    KnownNumbers,
    Places,
)
from broker.transport.order.sequencer.place_table import coverage_of
from broker.transport.order.settings import OrderSettings

#: A counter further ahead of the highest known one is an error.
MOST_AHEAD = 2**20
#: Numbers that wait for their messages. Beyond it the first ones are passed over.
MOST_ENTRIES = 4 * MOST_HEADERS


class NumberedCore(OrderCore):
    """Delivers messages when no number before theirs is missing.

    A number whose message does not arrive is passed over: at once if it can not arrive, else after
    `entry_patience`. The message is late then, and its site is suspected.

    A delivered message moves to a lower number, if another site has given it one.
    """

    # The sequencer numbers each message.
    has_runs = False

    def __init__(self, site: str, incarnation: int, settings: OrderSettings, floor: int) -> None:
        super().__init__(site, incarnation, settings)
        self._delivery = Delivery(settings.history)
        self._counter = floor  # of the highest known epoch
        self._reached = 0  # of the highest delivered stamp
        self._stuck_until: float | None = None  # the first entry waits for its message
        # Messages of connected sites for which this site has waited in vain.
        self._overdue: set[MessageId] = set()
        # Messages with lower places here than other sites know; the sequencer must learn one.
        self._contradicted: set[MessageId] = set()
        self._is_contradicted = False

    def find_stamp(self, id: MessageId, stamp: Stamp | None, at: Instant) -> Stamp | None:
        table = self._delivery.places
        known = [each for each in (stamp, table.place_of(id)) if each is not None]
        if known:
            return min(known)
        if id.site != self.site or self.connected or self._delivery.is_waiting_for_order:
            self._delivery.add_unplaced(id, at.now)
            return None
        stamp = self._take_number(at)
        self._delivery.restore(id, stamp)
        return stamp

    def place(self, id: MessageId, stamp: Stamp) -> Place | None:
        self._count_epoch(stamp)
        self._delivery.take_unplaced(id)
        self._delivery.restore(id, stamp)
        return super().place(id, stamp)

    def take_back(self, id: MessageId, stamp: Stamp) -> None:
        super().take_back(id, self._delivery.places.place_of(id) or stamp)

    def check_stamp(self, site: str, stamp: Stamp, at: Instant) -> None:
        self._check_counter(site, stamp.time >> NUMBER_BITS)

    def _next_stamp(self, count: int, at: Instant) -> None:
        return None

    def _add_own_messages(self, messages: Sequence[Message], at: Instant) -> Iterable[OrderEffect]:
        return [effect for message in messages for effect in self._add_message(message, at)]

    def _accept_message(self, site: str, message: Message, at: Instant) -> Iterable[OrderEffect]:
        if message.length > 1:
            raise ProtocolError(f"{site} sent a run to a sequencer")
        if self._take_new(site, message) is None:
            return ()
        effects = self._add_message(message, at)
        if effects and message.id in self._overdue:
            self._overdue.discard(message.id)
            is_late = any(isinstance(each, Deliver) and each.late for each in effects)
            if site in self.connected and is_late:
                effects.insert(0, Suspect(site, LATE))
        return effects

    def _add_message(self, message: Message, at: Instant) -> list[OrderEffect]:
        """Deliver the message if its place has passed."""
        self._delivery.add_message(message, at.now)
        self._waiting_bytes += message.cost
        place = self._delivery.places.place_of(message.id)
        return [] if place is None else self._deliver_from(message.id, place)

    def _take_number(self, at: Instant) -> Stamp:
        """Return the next number of this site, which is alone, and has nothing that waits."""
        raise NotImplementedError

    def _may_deliver(self, stamp: Stamp) -> bool:
        """Return False if another site may give lower numbers."""
        raise NotImplementedError

    def _drop_unsent(self, site: str, headers: Sequence[Header]) -> list[Header]:
        """Drop messages of this process that it never sent, and count the packet.

        They are no error of the site, which may have them from another one. Raises `ProtocolError`
        for too many headers.
        """
        if len(headers) > MOST_HEADERS:
            raise ProtocolError(f"{site} sent {len(headers)} headers at once")
        own, sent = (self.site, self._incarnation), self._sent
        known = [each for each in headers if each.id.number <= sent or each.id[:2] != own]
        self.refused += len(known) < len(headers)
        return known

    def _check_delivered(self, site: str, delivered: Delivered) -> None:
        """Raises `ProtocolError` for messages of this process that it never sent."""
        if delivered.get((self.site, self._incarnation), 0) > self._sent:
            raise ProtocolError(f"{site} has delivered a message that was never sent")

    def _check_places(self, site: str, places: Places) -> None:
        """Raises `ProtocolError` also for epochs too far ahead."""
        self._drop_unsent(site, [header for _, header in places])
        for stamp, _ in places:
            self._raise_counter(site, stamp.time >> NUMBER_BITS)

    @staticmethod
    def _check_sequencer(site: str, epoch: Epoch) -> None:
        if epoch.sequencer != site:
            raise ProtocolError(f"{site} is not the sequencer of {epoch}")

    def _raise_counter(self, site: str, counter: int) -> None:
        self._check_counter(site, counter)
        self._counter = max(self._counter, counter)

    def _check_counter(self, site: str, counter: int) -> None:
        if counter > self._counter + MOST_AHEAD:
            raise ProtocolError(f"the epoch {counter} of {site} is too far ahead")

    @property
    def _is_overdue(self) -> bool:
        """True if nothing more may wait."""
        return self._is_full or len(self._delivery.entries) > MOST_ENTRIES

    def _drop_entries(self, at: Instant) -> None:
        self._delivery.drop_entries(at.now)
        self._stuck_until = None

    def _adopt_places(self, places: Places, known: KnownNumbers, at: Instant) -> list[OrderEffect]:
        """Let places of earlier epochs precede the numbers of this one.

        The numbers of `known` are those of its sender, which has told all places.
        """
        effects: list[OrderEffect] = []
        table = self._delivery.places
        is_covered = coverage_of(table.known)
        # Before the message of a number come those of its sender that share it.
        shared = {one[1].id for one, other in pairwise(places) if one[0] == other[0]}
        for stamp, header in places:
            place = table.place_of(header.id)
            is_lower = place is None or stamp < place
            if is_lower and (is_covered(stamp) or header.id in shared):
                table.mark_uncovered(header.id)
            if stamp != place:
                effects += self._add_place(stamp, header, at, {})
        self._delivery.add_known(known)
        return effects

    def _add_place(
        self, stamp: Stamp, header: Header, at: Instant, known: KnownNumbers | None = None
    ) -> list[OrderEffect]:
        """Add an entry, or move a message that has a place."""
        id, table = header.id, self._delivery.places
        place = table.place_of(id)
        if place is None:
            self._delivery.add_entry(stamp, header, at.now, known)
            return []
        if place < stamp:
            self._contradict(id)
            return []
        return self._move(place, stamp, header)

    def _contradict(self, id: MessageId) -> None:
        """Let other sites learn a place that is below their number, once for each message."""
        self._delivery.places.mark_uncovered(id)
        if id not in self._contradicted:
            self._contradicted.add(id)
            drop_beyond(self._contradicted, self._settings.history)
            self._is_contradicted = True

    def _move(self, before: Stamp, stamp: Stamp, header: Header) -> list[OrderEffect]:
        """Let the lower place of a message count, of two that are known."""
        self._delivery.places.add_place(header, stamp)
        id = header.id
        if stamp >= before or not self._history.remove(before, id):
            return []
        return [Move(id, before, stamp, self._history.add(stamp, id))]

    def _place_delivered(self, stamp: Stamp, header: Header) -> list[OrderEffect]:
        """Give a place to a message that was delivered without one."""
        id = header.id
        self._delivery.take_unplaced(id)
        self._delivery.places.add_place(header, stamp)
        self._count_epoch(stamp)
        return [Move(id, None, stamp, self._history.add(stamp, id))]

    def _deliver_known(self, places: Places) -> list[OrderEffect]:
        """Deliver requested messages. Those between them may be missing here.

        Other places are kept: sites behind this one request them.
        """
        effects: list[OrderEffect] = []
        for stamp, header in places:
            id = header.id
            if self._delivery.is_waiting(id) and not self._delivery.is_numbered(id):
                effects += self._deliver_from(id, stamp)
            elif (place := self._delivery.places.place_of(id)) is not None:
                effects += self._move(place, stamp, header)
            elif self._delivery.is_unplaced(id) and not self._delivery.is_numbered(id):
                effects += self._place_delivered(stamp, header)
            elif not self._delivery.is_numbered(id):
                self._delivery.places.add_place(header, stamp)
        return effects

    def _deliver_entries(self, at: Instant) -> list[OrderEffect]:
        effects: list[OrderEffect] = []
        delivery = self._delivery
        self._stuck_until = None
        while delivery.entries:
            stamp, header, since, _ = delivery.entries[0]
            if not (self._may_deliver(stamp) or self._is_overdue):
                return effects
            id = header.id
            if delivery.is_waiting(id):
                effects += self._deliver_from(id, stamp)
            elif delivery.is_unplaced(id):
                effects += self._place_delivered(stamp, header)
            elif not delivery.is_delivered(id):
                end = since + self._settings.entry_patience
                if self._will_arrive(header):
                    if at.now < end and not self._is_overdue:
                        self._stuck_until = end
                        return effects
                    self._overdue.add(id)
                    drop_beyond(self._overdue, self._settings.history)
                delivery.places.add_place(header, stamp)
            delivery.pop_entry()
        return effects

    def _will_arrive(self, header: Header) -> bool:
        """Return True if both ends were connected, and the sender has sent no later message."""
        id, connected = header
        origin = self._origins.get(id.site)
        last = (0, 0) if origin is None else (origin.incarnation, origin.number)
        return id.site in self.connected and self.site in connected and last < id[1:]

    def _count_epoch(self, stamp: Stamp) -> None:
        self._reached = max(self._reached, stamp.time >> NUMBER_BITS)
        self._counter = max(self._counter, self._reached)

    def _deliver_from(self, id: MessageId, stamp: Stamp) -> list[OrderEffect]:
        self._count_epoch(stamp)
        effects: list[OrderEffect] = []
        for message, place, is_lower in self._delivery.take_messages(id, stamp):
            self._waiting_bytes -= message.cost
            if is_lower:
                self._contradict(message.id)
            delivered = self._deliver(message, place)
            effects.append(delivered)
            if self._delivery.take_unplaced(message.id):
                # Its event was delivered by `find_stamp`, too: the owner did not wait.
                effects.append(Move(message.id, None, place, delivered.late))
        return effects


def drop_beyond(ids: set[MessageId], most: int) -> None:
    if len(ids) > most:
        ids.pop()
