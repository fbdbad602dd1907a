"""Pacing of packets at a set rate."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import ClassVar

import attrs
from zope.interface import implementer

from broker.errors import ConfigurationError
from broker.transport.arq.pacer import Pacer
from broker.transport.arq.settings import constant_rate
from broker.transport.effects import Effect, SendDown, WritableChanged
from broker.transport.layer import ILinkLayer, LinkPassThrough, Property
from broker.transport.socket.datagram_transport import DEFAULT_DATAGRAM


@implementer(ILinkLayer)
@attrs.frozen(kw_only=True)
class PacingLayer:
    """Packets leave at most at `rate` bytes per second.

    Up to `queue_bytes` wait; further packets are dropped and counted. Above a half of it the user
    of the stack is stopped, below a quarter it continues. Raises `ConfigurationError` for a value
    out of range.
    """

    rate: float
    queue_bytes: int = 4 * 1024 * 1024
    #: Bytes of a usual packet.
    packet_bytes: int = DEFAULT_DATAGRAM

    name: ClassVar[str] = "pacing"
    version: ClassVar[int] = 1
    requires: ClassVar[frozenset[Property]] = frozenset({Property.FRAMED})
    provides: ClassVar[frozenset[Property]] = frozenset()
    #: A full queue drops packets.
    breaks: ClassVar[frozenset[Property]] = frozenset({Property.RELIABLE, Property.RESUMABLE})

    def __attrs_post_init__(self) -> None:
        if self.queue_bytes <= 0:
            raise ConfigurationError("pacing queue_bytes: must be more than 0")
        if self.rate <= 0:
            raise ConfigurationError("pacing rate: must be more than 0")
        constant_rate(self.rate, self.packet_bytes)

    def create_core(self) -> PacingCore:
        return PacingCore(self)


class PacingCore(LinkPassThrough):
    def __init__(self, layer: PacingLayer) -> None:
        self.dropped = 0
        self.queued_bytes = 0
        self._pacer = Pacer(constant_rate(layer.rate, layer.packet_bytes), 0.0)
        self._max_bytes = layer.queue_bytes
        self._queue: deque[bytes] = deque()
        self._is_writable = True

    def submit(self, packets: Sequence[bytes], now: float) -> list[Effect]:
        for packet in packets:
            if self.queued_bytes + len(packet) > self._max_bytes:
                self.dropped += 1
            else:
                self._queue.append(packet)
                self.queued_bytes += len(packet)
        return self.handle_timeout(now)

    def handle_timeout(self, now: float) -> list[Effect]:
        due: list[bytes] = []
        while self._queue and self._pacer.may_send(now):
            packet = self._queue.popleft()
            self.queued_bytes -= len(packet)
            self._pacer.record_sent(len(packet))
            due.append(packet)
        effects: list[Effect] = [SendDown(due)] if due else []
        fill = self.queued_bytes / self._max_bytes
        if fill > 1 / 2 if self._is_writable else fill < 1 / 4:
            self._is_writable = not self._is_writable
            effects.append(WritableChanged(self._is_writable))
        return effects

    def next_timeout(self) -> float | None:
        return self._pacer.next_send_at() if self._queue else None
