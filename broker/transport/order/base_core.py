"""State of every variant: connected sites, numbers of messages, and what was delivered."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import repeat

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

    has_runs = True

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

    def stamp(self, count: int, at: Instant) -> Reserved:
        last = self._reserved[-1] if self._reserved else Reserved(self._sent + 1, None, 0)
        following, stamp = last.without(last.length), self._next_stamp(count, at)
        reserved = Reserved(following.number, stamp, count)
        if self._reserved and following.stamp == stamp:
            # A run may have messages of both.
            self._reserved[-1] = last._replace(length=last.length + count)
        else:
            self._reserved.append(reserved)
        return reserved

    def release(
        self, payloads: Sequence[bytes], at: Instant, counts: Sequence[int] = ()
    ) -> list[OrderEffect]:
        messages: list[Message] = []
        reserved = self._reserved
        for payload, count in zip(payloads, counts or repeat(1, len(payloads)), strict=True):
            first = reserved[0]
            if count < first.length:
                reserved[0] = first.without(count)
            elif count == first.length:
                reserved.popleft()
            else:
                raise IndexError(f"a run of {count} messages with {first.length} stamps")
            id = MessageId(self.site, self._incarnation, first.number)
            messages.append(Message(id, payload, self.connected, first.stamp, count))
            self._sent = id.number + count - 1
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

    def _next_stamp(self, count: int, at: Instant) -> Stamp | None:
        """Return the first stamp of the next own messages."""
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

    def _take_new(self, site: str, message: Message) -> Message | None:
        """Return the new part of a message; None for a duplicate.

        Raises `ProtocolError` for a wrong sender.
        """
        if self._is_full:
            raise ProtocolError(f"a message of {site} is beyond the bound of the queue")
        id = message.id
        if id.site != site:
            raise ProtocolError(f"{site} sent a message of {id.site}")
        origin = self._origin(id)
        if id.incarnation < origin.incarnation:
            raise ProtocolError(f"{site} sent a message of its incarnation {id.incarnation}")
        if id.number <= origin.number:
            duplicates = min(message.length, origin.number - id.number + 1)
            self.duplicates += duplicates
            if duplicates == message.length:
                return None
            message = message.cut(duplicates)[1]
        if message.stamp is not None:
            time, name = message.stamp
            if name != site:
                raise ProtocolError(f"{site} sent a stamp of {name}")
            if origin.time is not None and time <= origin.time:
                raise ProtocolError(f"the stamps of {site} fall to {time}")
            origin.time = time + message.length - 1
        origin.number = message.last
        return message

    def _origin(self, id: MessageId) -> Origin:
        origin = self._origins.get(id.site)
        if origin is None or id.incarnation > origin.incarnation:
            origin = self._origins[id.site] = Origin(id.incarnation)
        return origin

    def _deliver(self, message: Message, stamp: Stamp) -> Deliver:
        """Deliver a message, or a run that is in time."""
        return Deliver(message, stamp, self._history.add(stamp, message.id, message.length))

    def _suspect(self, site: str, reason: str) -> Suspect:
        self.connected -= {site}
        return Suspect(site, reason)
