"""State of every variant: connected sites, numbers of messages, and what was delivered."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from broker.errors import ProtocolError
from broker.transport.effects import Failed
from broker.transport.order.effects import Deliver, OrderEffect, Packet, Place, Send, Suspect
from broker.transport.order.history import History
from broker.transport.order.instant import Instant
from broker.transport.order.packet import Message, MessageId, Reserved, Stamp
from broker.transport.order.settings import OrderSettings
from broker.transport.view import LinkState


class Origin:
    """The last message of a site: its incarnation, number and stamp (K21)."""

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        self.number = 0
        self.time: int | None = None


class OrderCore:
    """The part that all variants share. A variant decides about stamps and times of delivery."""

    def __init__(self, site: str, incarnation: int, settings: OrderSettings) -> None:
        self.site = site
        self.connected: frozenset[str] = frozenset()
        self.duplicates = self.refused = 0
        self._waiting_bytes = 0  # of messages that are not delivered
        self._incarnation = incarnation
        self._settings = settings
        self._sent = 0  # number of the last released message
        self._reserved: deque[Reserved] = deque()
        self._origins: dict[str, Origin] = {}
        self._history = History(settings.history)

    # ----------------------------------------------------------------- of the interface

    def stamp(self, count: int, at: Instant) -> list[Reserved]:
        first = self._sent + len(self._reserved) + 1
        numbers = range(first, first + count)
        reserved = list(map(Reserved, numbers, self._next_stamps(count, at)))
        self._reserved += reserved
        return reserved

    def release(self, payloads: Sequence[bytes], at: Instant) -> list[OrderEffect]:
        messages: list[Message] = []
        for payload in payloads:
            self._sent, stamp = self._reserved.popleft()
            id = MessageId(self.site, self._incarnation, self._sent)
            messages.append(Message(id, payload, self.connected, stamp))
        own = self._add_own_messages(messages, at)
        return [Send(messages), *own, *self._advance(at)]

    def revoke(self, at: Instant) -> list[OrderEffect]:
        self._reserved.clear()
        return self._advance(at)

    def receive(self, site: str, packets: Sequence[Packet], at: Instant) -> list[OrderEffect]:
        effects: list[OrderEffect] = []
        try:
            for packet in packets:
                effects += self._accept_packet(site, packet, at)
        except ProtocolError as error:
            self.refused += 1
            effects.append(Failed(error, site))
        effects += self._advance(at)
        return effects

    def miss_messages(self, last: MessageId, at: Instant) -> list[OrderEffect]:
        origin = self._origin(last)
        if origin.incarnation == last.incarnation:
            origin.number = max(origin.number, last.number)
        return self._advance(at)

    def next_timeout(self) -> float | None:
        return min((time for time in self._timeouts() if time is not None), default=None)

    def disconnect(self, site: str, state: LinkState, at: Instant) -> list[OrderEffect]:
        if site not in self.connected:
            return []
        self.connected -= {site}
        return self._advance(at)

    def find_stamp(self, id: MessageId, stamp: Stamp | None, at: Instant) -> Stamp | None:
        return stamp

    def place(self, id: MessageId, stamp: Stamp) -> Place | None:
        return self._history.add(stamp, id)

    def take_back(self, id: MessageId, stamp: Stamp) -> None:
        self._history.remove(stamp, id)

    # ----------------------------------------------------------------- of the variants

    def _next_stamps(self, count: int, at: Instant) -> Iterable[Stamp | None]:
        """Return stamps of the next own messages."""
        raise NotImplementedError

    def _add_own_messages(self, messages: Sequence[Message], at: Instant) -> Iterable[OrderEffect]:
        """Handle released messages."""
        raise NotImplementedError

    def _accept_packet(self, site: str, packet: Packet, at: Instant) -> Iterable[OrderEffect]:
        """Raises `ProtocolError`."""
        raise NotImplementedError

    def _timeouts(self) -> Iterable[float | None]:
        """Return the times of `handle_timeout`, with None for those that are not planned."""
        raise NotImplementedError

    def _advance(self, at: Instant) -> list[OrderEffect]:
        """Deliver messages whose condition holds."""
        raise NotImplementedError

    @property
    def _is_full(self) -> bool:
        return self._waiting_bytes > self._settings.queue

    def _is_new(self, site: str, message: Message) -> bool:
        """Return False for a duplicate. Raises `ProtocolError` for a wrong sender."""
        if self._is_full:
            raise ProtocolError(f"a message of {site} is beyond the bound of the queue")
        id = message.id
        if id.site != site:
            raise ProtocolError(f"{site} sent a message of {id.site}")
        origin = self._origin(id)
        if id.incarnation < origin.incarnation:
            raise ProtocolError(f"{site} sent a message of its incarnation {id.incarnation}")
        if id.number <= origin.number:
            self.duplicates += 1
            return False
        if message.stamp is not None:
            time, name = message.stamp
            if name != site:
                raise ProtocolError(f"{site} sent a stamp of {name}")
            if origin.time is not None and time <= origin.time:
                raise ProtocolError(f"the stamps of {site} fall to {time}")
            origin.time = time
        origin.number = id.number
        return True

    def _origin(self, id: MessageId) -> Origin:
        origin = self._origins.get(id.site)
        if origin is None or id.incarnation > origin.incarnation:
            origin = self._origins[id.site] = Origin(id.incarnation)
        return origin

    def _deliver(self, message: Message, stamp: Stamp) -> Deliver:
        return Deliver(message, stamp, self._history.add(stamp, message.id))

    def _suspect(self, site: str, reason: str) -> Suspect:
        self.connected -= {site}
        return Suspect(site, reason)
