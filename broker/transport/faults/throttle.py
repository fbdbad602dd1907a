"""Throttle: so many bytes a second pass, and the queue for them is short."""

from __future__ import annotations

from typing import ClassVar

import attrs
from zope.interface import implementer

from broker.transport.effects import Peer
from broker.transport.faults.delay_line import DelayLine, HoldingCore
from broker.transport.faults.direction import Direction, check_positive
from broker.transport.layer import ILayer, Property


@implementer(ILayer)
@attrs.frozen(kw_only=True)
class ThrottleLayer:
    """Lets `bytes_per_second` pass each way.

    At most `queue_bytes` wait; a packet that finds no room is dropped and counted, but one always
    has room in an empty queue. Raises `ConfigurationError` for settings that are not positive.
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
        """A core with empty queues."""
        return ThrottleCore(self)


class ThrottleCore(HoldingCore):
    """A packet goes on when its last byte has passed."""

    def __init__(self, layer: ThrottleLayer) -> None:
        super().__init__(layer.direction)
        self.discarded = 0
        self._layer = layer
        self._free_at: dict[DelayLine, float] = {self._down: 0.0, self._up: 0.0}

    def hold_packet(self, line: DelayLine, packet: bytes, peer: Peer | None, now: float) -> None:
        """Queue the packet, or drop it."""
        free_at = max(now, self._free_at[line])
        queued = (free_at - now) * self._layer.bytes_per_second
        if line.packets and queued + len(packet) > self._layer.queue_bytes:
            self.discarded += 1
            return
        self._free_at[line] = free_at + len(packet) / self._layer.bytes_per_second
        line.packets.append((self._free_at[line], packet, peer))

    def clear(self) -> None:
        """The queues are empty on a new connection."""
        super().clear()
        self._free_at = {self._down: 0.0, self._up: 0.0}
