"""Delivery in the order of numbers, for the sequencer variant (L3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat

from broker.errors import ProtocolError
from broker.transport.order.base_core import OrderCore
from broker.transport.order.effects import LATE, OrderEffect, Suspect
from broker.transport.order.instant import Instant
from broker.transport.order.packet import Message, MessageId, Stamp
from broker.transport.order.sequencer.delivery import Delivery
from broker.transport.order.sequencer.packet import MOST_HEADERS, NUMBER_BITS, Header, Places
from broker.transport.order.settings import OrderSettings


class NumberedCore(OrderCore):
    """Delivers messages when no number before theirs is missing.

    A number whose message does not arrive is passed over: at once if it can not arrive, else after
    `entry_patience`. The message is late then, and its site is suspected.
    """

    def __init__(self, site: str, incarnation: int, settings: OrderSettings, floor: int) -> None:
        super().__init__(site, incarnation, settings)
        self._delivery = Delivery(settings.history)
        self._counter = floor  # of the highest known epoch
        self._reached = 0  # of the highest delivered stamp
        self._stuck_until: float | None = None  # the first entry waits for its message
        # Messages of connected sites for which this site has waited in vain.
        self._overdue: set[MessageId] = set()

    def _next_stamps(self, count: int, at: Instant) -> Iterable[None]:
        return repeat(None, count)

    def _add_own_messages(self, messages: Sequence[Message], at: Instant) -> None:
        for message in messages:
            self._delivery.add_message(message, at.now)

    def _accept_message(self, site: str, message: Message, at: Instant) -> Iterable[OrderEffect]:
        if not self._is_new(site, message):
            return ()
        self._delivery.add_message(message, at.now)
        place = self._delivery.place_of(message.id)
        if place is None:
            return ()
        effects = self._deliver_from(message.id, place)
        if message.id in self._overdue:
            self._overdue.discard(message.id)
            if site in self.connected:
                effects.insert(0, Suspect(site, LATE))
        return effects

    def _check_headers(self, site: str, headers: Sequence[Header]) -> None:
        """Raises `ProtocolError` for messages of this process that it never sent."""
        if len(headers) > MOST_HEADERS:
            raise ProtocolError(f"{site} sent {len(headers)} headers at once")
        for id, _ in headers:
            if id[:2] == (self.site, self._incarnation) and id.number > self._sent:
                raise ProtocolError(f"{site} numbers message {id.number}, which was never sent")

    def _drop_entries(self, at: Instant) -> None:
        self._delivery.drop_entries(at.now)
        self._stuck_until = None

    def _adopt_places(self, places: Places, at: Instant) -> None:
        """Let places of earlier epochs precede the numbers of this one."""
        for stamp, header in places:
            if self._delivery.place_of(header.id) is None:
                self._delivery.add_entry(stamp, header, at.now)

    def _deliver_known(self, places: Places) -> list[OrderEffect]:
        """Deliver requested messages. Those between them may be missing here.

        Other places are kept: sites behind this one request them.
        """
        effects: list[OrderEffect] = []
        for stamp, header in places:
            id = header.id
            if self._delivery.is_waiting(id) and not self._delivery.is_numbered(id):
                effects += self._deliver_from(id, stamp)
            elif self._delivery.is_without_place(id):
                self._delivery.add_place(header, stamp)
        return effects

    def _deliver_entries(self, at: Instant) -> list[OrderEffect]:
        effects: list[OrderEffect] = []
        delivery = self._delivery
        self._stuck_until = None
        while delivery.entries:
            stamp, header, since = delivery.entries[0]
            id = header.id
            if delivery.is_waiting(id):
                effects += self._deliver_from(id, stamp)
            elif not delivery.is_delivered(id):
                end = since + self._settings.entry_patience
                if self._will_arrive(header):
                    if at.now < end:
                        self._stuck_until = end
                        return effects
                    self._overdue.add(id)
                    if len(self._overdue) > self._settings.history:
                        self._overdue.pop()
                delivery.add_place(header, stamp)
            delivery.pop_entry()
        return effects

    def _will_arrive(self, header: Header) -> bool:
        """Return True if both ends were connected, and the sender has sent no later message."""
        id, connected = header
        origin = self._origins.get(id.site)
        last = (0, 0) if origin is None else (origin.incarnation, origin.number)
        return id.site in self.connected and self.site in connected and last < id[1:]

    def _deliver_from(self, id: MessageId, stamp: Stamp) -> list[OrderEffect]:
        self._reached = max(self._reached, stamp.time >> NUMBER_BITS)
        self._counter = max(self._counter, self._reached)
        return [self._deliver(*each) for each in self._delivery.take_messages(id, stamp)]
