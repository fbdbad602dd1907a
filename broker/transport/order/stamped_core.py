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

    def _next_time(self, at: Instant) -> int:
        """Return the time of the next own stamp."""
        raise NotImplementedError

    def _merge(self, site: str, time: int, at: Instant) -> None:
        """Handle the time of a stamp or clock of a site. Raises `ProtocolError`."""
        raise NotImplementedError

    def _is_ready(self, stamp: Stamp, at: Instant) -> bool:
        """Return True if the lowest message in the queue is due."""
        raise NotImplementedError

    def check_stamp(self, site: str, stamp: Stamp, at: Instant) -> None:
        self._check_time(site, stamp.time, at)

    # ----------------------------------------------------------------- of the queue

    def _next_stamps(self, count: int, at: Instant) -> Iterable[Stamp]:
        return [Stamp(self._next_time(at), self.site) for _ in range(count)]

    def _add_own_messages(self, messages: Sequence[Message], at: Instant) -> Iterable[OrderEffect]:
        for message in messages:
            assert message.stamp is not None
            self._enqueue(message.stamp, message, at)
        return ()

    @property
    def _lowest_stamp(self) -> Stamp | None:
        """The lowest stamp in the queue. None if a reserved one is below it."""
        lowest = self._queue[0][0] if self._queue else None
        reserved = self._reserved[0].stamp if self._reserved else None
        return None if lowest and reserved and reserved < lowest else lowest

    def _below_reserved(self, time: int) -> int:
        """Return the highest time, up to this one, that is below the reserved stamps."""
        if self._reserved and (stamp := self._reserved[0].stamp):
            return min(time, stamp.time - 1)
        return time

    def _accept_packet(self, site: str, packet: Packet, at: Instant) -> Iterable[OrderEffect]:
        if not isinstance(packet, Message) or packet.stamp is None:
            raise ProtocolError(f"{site} sent a packet of another variant")
        stamp = packet.stamp
        self._check_time(site, stamp.time, at)
        if not self._is_new(site, packet):
            return ()
        self._merge(site, stamp.time, at)
        if not self._history.is_late(stamp, packet.id.number):
            self._enqueue(stamp, packet, at)
            return ()
        late: list[OrderEffect] = [self._deliver(packet, stamp)]
        is_current = self.site in packet.connected and stamp.time > self._answers.get(site, 0)
        if site in self.connected and is_current:
            late.insert(0, self._suspect(site, LATE))
        return late

    def _check_time(self, site: str, time: int, at: Instant) -> None:
        """Raises `ProtocolError` for a time too far ahead."""
        if time > at.site_clock + self._settings.clock_bound * MICROSECONDS:
            raise ProtocolError(f"a stamp of {site} is too far ahead: {time}")

    def _enqueue(self, stamp: Stamp, message: Message, at: Instant) -> None:
        heappush(self._queue, (stamp, self._arrivals, message))
        self._arrivals += 1
        self._waiting_bytes += message.cost

    def _advance(self, at: Instant) -> list[OrderEffect]:
        effects: list[OrderEffect] = []
        while (stamp := self._lowest_stamp) and self._is_ready(stamp, at):
            message = heappop(self._queue)[2]
            self._waiting_bytes -= message.cost
            effects.append(self._deliver(message, stamp))
        return effects
