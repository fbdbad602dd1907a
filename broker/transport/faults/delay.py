"""Delay: packets arrive later, in order."""

from __future__ import annotations

from random import Random
from typing import ClassVar

import attrs
from zope.interface import implementer

from broker.errors import ConfigurationError
from broker.transport.faults.delay_line import DelayLine, HoldingCore
from broker.transport.faults.direction import Direction, check_positive
from broker.transport.layer import ILinkLayer, Property


@implementer(ILinkLayer)
@attrs.frozen(kw_only=True)
class DelayLayer:
    """Delay each packet by `minimum` to `maximum` seconds; none overtakes another.

    At most `capacity` packets are held each way; beyond that the oldest leaves early. Raises
    `ConfigurationError` for values out of range.
    """

    seed: int
    minimum: float
    maximum: float
    capacity: int = 10_000
    direction: Direction = Direction.BOTH

    name: ClassVar[str] = "delay"
    version: ClassVar[int] = 1
    requires: ClassVar[frozenset[Property]] = frozenset()
    provides: ClassVar[frozenset[Property]] = frozenset()
    breaks: ClassVar[frozenset[Property]] = frozenset()

    def __attrs_post_init__(self) -> None:
        check_positive(self.name, "capacity", self.capacity)
        if not 0 <= self.minimum <= self.maximum:
            raise ConfigurationError("delay: minimum and maximum must be 0 <= minimum <= maximum")

    def create_core(self) -> DelayCore:
        return DelayCore(self)


class DelayCore(HoldingCore):
    def __init__(self, layer: DelayLayer) -> None:
        super().__init__(layer.direction)
        self._layer = layer
        self._random = Random(layer.seed)

    def hold_packet(self, line: DelayLine, packet: bytes, now: float) -> None:
        if len(line.packets) >= self._layer.capacity:
            # The oldest leave with this call.
            for place in range(len(line.packets) - self._layer.capacity + 1):
                line.packets[place] = (now, line.packets[place][1])
        due = now + self._random.uniform(self._layer.minimum, self._layer.maximum)
        if line.packets:
            due = max(due, line.packets[-1][0])
        line.packets.append((due, packet))
