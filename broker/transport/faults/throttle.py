"""Throttle: a bounded throughput with a short queue."""

from __future__ import annotations

from typing import ClassVar

import attrs
from zope.interface import implementer

from broker.transport.faults.delay_line import DelayLine, HoldingCore
from broker.transport.faults.direction import Direction, check_positive
from broker.transport.layer import ILinkLayer, Property


@implementer(ILinkLayer)
@attrs.frozen(kw_only=True)
class ThrottleLayer:
    """Pass `bytes_per_second` each way.

    At most `queue_bytes` wait; a packet without room is dropped and counted. An empty queue has
    room for any packet. Raises `ConfigurationError` for values that are not positive.
    """

    bytes_per_second: float
    queue_bytes: int = 256 * 1024
    direction: Direction = Direction.BOTH

    name: ClassVar[str] = "throttle"
    version: ClassVar[int] = 1
    requires: ClassVar[frozenset[Property]] = frozenset()
    provides: ClassVar[frozenset[Property]] = frozenset()
    breaks: ClassVar[frozenset[Property]] = frozenset({Property.RELIABLE, Property.RESUMABLE})

    def __attrs_post_init__(self) -> None:
        check_positive(self.name, "bytes_per_second", self.bytes_per_second)
        check_positive(self.name, "queue_bytes", self.queue_bytes)

    def create_core(self) -> ThrottleCore:
        return ThrottleCore(self)


class ThrottleCore(HoldingCore):
    """A packet is released when its last byte has passed."""

    def __init__(self, layer: ThrottleLayer) -> None:
        super().__init__(layer.direction)
        self.discarded = 0
        self._layer = layer
        self._free_at: dict[DelayLine, float] = {self._down: 0.0, self._up: 0.0}

    def hold_packet(self, line: DelayLine, packet: bytes, now: float) -> None:
        free_at = max(now, self._free_at[line])
        queued = (free_at - now) * self._layer.bytes_per_second
        if line.packets and queued + len(packet) > self._layer.queue_bytes:
            self.discarded += 1
            return
        self._free_at[line] = free_at + len(packet) / self._layer.bytes_per_second
        line.packets.append((self._free_at[line], packet))

    def clear(self) -> None:
        super().clear()
        self._free_at = {self._down: 0.0, self._up: 0.0}
