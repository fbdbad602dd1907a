"""Variants whose sender stamps: a queue by stamp, and a condition for its lowest message."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from broker.errors import ProtocolError
from broker.transport.order.base_core import OrderCore
from broker.transport.order.effects import LATE, OrderEffect, Packet
from broker.transport.order.instant import MICROSECONDS, Instant
from broker.transport.order.packet import Message, Stamp
from broker.transport.order.settings import OrderSettings


class StampedCore(OrderCore):
    """Delivers the lowest stamp when a condition of the variant holds.

    A message below a delivered stamp is delivered at once, as late. If both ends were connected
    when it was sent, the sender is suspected first: so no two connected sites get late messages of
    each other (R16).
    """

    def __init__(self, site: str, incarnation: int, settings: OrderSettings) -> None:
        super().__init__(site, incarnation, settings)
        # Stamp, count of arrivals before it, message.
        self._queue: list[tuple[Stamp, int, Message]] = []
        self._arrivals = 0
        # Answers in the handshakes of connected sites.
        self._answers: dict[str, int] = {}

    # ----------------------------------------------------------------- of the variants

    def _next_time(self, count: int, at: Instant) -> int:
        """Return the time of the first one of the next own stamps."""
        raise NotImplementedError

    def _merge(self, site: str, time: int, at: Instant) -> None:
        """Handle the time of a stamp or clock of a site. Raises `ProtocolError`."""
        raise NotImplementedError

    def _due_time(self, at: Instant) -> int:
        """Return the highest time of messages that are due."""
        raise NotImplementedError

    def check_stamp(self, site: str, stamp: Stamp, at: Instant) -> None:
        self._check_time(site, stamp.time, at)

    # ----------------------------------------------------------------- of the queue

    def _next_stamp(self, count: int, at: Instant) -> Stamp:
        return Stamp(self._next_time(count, at), self.site)

    def _add_own_messages(self, messages: Sequence[Message], at: Instant) -> Iterable[OrderEffect]:
        for message in messages:
            self._enqueue(message, at)
        return ()

    @property
    def _lowest_reserved(self) -> Stamp | None:
        return self._reserved[0].stamp if self._reserved else None

    @property
    def _lowest_stamp(self) -> Stamp | None:
        """The lowest stamp in the queue. None if a reserved one is below it."""
        lowest, reserved = self._queue[0][0] if self._queue else None, self._lowest_reserved
        return None if lowest and reserved and reserved < lowest else lowest

    @property
    def _lowest_end(self) -> int | None:
        """The time of the last stamp of the lowest message or run. None as for `_lowest_stamp`.

        A run waits for its last stamp: otherwise a timer would wake for each of its messages.
        """
        stamp = self._lowest_stamp
        return None if stamp is None else stamp.time + self._queue[0][2].length - 1

    def _below_reserved(self, time: int) -> int:
        """Return the highest time, up to this one, that is below the reserved stamps."""
        stamp = self._lowest_reserved
        return min(time, stamp.time - 1) if stamp else time

    def _accept_packet(self, site: str, packet: Packet, at: Instant) -> Iterable[OrderEffect]:
        if not isinstance(packet, Message) or packet.stamp is None:
            raise ProtocolError(f"{site} sent a packet of another variant")
        self._check_time(site, packet.stamp.time + packet.length - 1, at)
        message = self._take_new(site, packet)
        if message is None:
            return ()
        assert message.stamp is not None
        self._merge(site, message.stamp.time + message.length - 1, at)
        effects: list[OrderEffect] = []
        for _ in range(self._history.count_late(message.stamp, message.id.number, message.length)):
            late, message = message.cut(1)
            effects += self._deliver_late(site, late)
        if message.length:
            self._enqueue(message, at)
        return effects

    def _deliver_late(self, site: str, message: Message) -> Iterable[OrderEffect]:
        stamp = message.stamp
        assert stamp is not None
        delivery = self._deliver(message, stamp)
        is_current = self.site in message.connected and stamp.time > self._answers.get(site, 0)
        if site in self.connected and is_current:
            return self._suspect(site, LATE), delivery
        return (delivery,)

    def _check_time(self, site: str, time: int, at: Instant) -> None:
        """Raises `ProtocolError` for a time too far ahead."""
        if time > at.site_clock + self._settings.clock_bound * MICROSECONDS:
            raise ProtocolError(f"a stamp of {site} is too far ahead: {time}")

    def _enqueue(self, message: Message, at: Instant) -> None:
        self._push(message)
        self._waiting_bytes += message.cost

    def _push(self, message: Message) -> None:
        assert message.stamp is not None
        heappush(self._queue, (message.stamp, self._arrivals, message))
        self._arrivals += 1

    def _advance(self, at: Instant) -> list[OrderEffect]:
        effects: list[OrderEffect] = []
        if not self._queue:
            return effects
        queue, due = self._queue, self._due_time(at)
        while (stamp := self._lowest_stamp) and stamp.time <= due:
            message = heappop(queue)[2]
            if message.length > 1:
                message = self._cut_at_due(message, stamp, due)
            self._waiting_bytes -= message.cost
            effects.append(self._deliver(message, stamp))
        return effects

    def _cut_at_due(self, message: Message, stamp: Stamp, due: int) -> Message:
        """Return the begin of a run that is due, and below all other stamps; queue the rest."""
        count = min(message.length, due - stamp.time + 1)
        others = [self._queue[0][0]] if self._queue else []
        if (reserved := self._lowest_reserved) is not None:
            others.append(reserved)
        for other in others:
            count = min(count, max(stamp.count_below(other), 1))
        if count < message.length:
            message, rest = message.cut(count)
            self._push(rest)
        return message
