"""Reordering: packets overtake each other."""

from __future__ import annotations

from random import Random
from typing import ClassVar

import attrs
from zope.interface import implementer

from broker.transport.faults.delay_line import DelayLine, HoldingCore
from broker.transport.faults.direction import Direction, check_positive, check_rate
from broker.transport.layer import ILinkLayer, Property


@implementer(ILinkLayer)
@attrs.frozen(kw_only=True)
class ShuffleLayer:
    """Hold a packet back for `hold` seconds with probability `rate`; later ones overtake it.

    At most `span` packets are held back each way. Raises `ConfigurationError` for values out of
    range.
    """

    seed: int
    rate: float
    hold: float = 0.05
    span: int = 8
    direction: Direction = Direction.BOTH

    name: ClassVar[str] = "shuffle"
    version: ClassVar[int] = 1
    requires: ClassVar[frozenset[Property]] = frozenset()
    provides: ClassVar[frozenset[Property]] = frozenset()
    breaks: ClassVar[frozenset[Property]] = frozenset({Property.FIFO, Property.RESUMABLE})

    def __attrs_post_init__(self) -> None:
        check_rate(self.name, self.rate)
        check_positive(self.name, "hold", self.hold)
        check_positive(self.name, "span", self.span)

    def create_core(self) -> ShuffleCore:
        return ShuffleCore(self)


class ShuffleCore(HoldingCore):
    def __init__(self, layer: ShuffleLayer) -> None:
        super().__init__(layer.direction)
        self.shuffled = 0
        self._layer = layer
        self._random = Random(layer.seed)

    def hold_packet(self, line: DelayLine, packet: bytes, now: float) -> None:
        back = sum(1 for due, _ in line.packets if due > now)
        if back < self._layer.span and self._random.random() < self._layer.rate:
            line.packets.append((now + self._layer.hold, packet))
            self.shuffled += 1
            return
        # In order among the packets due now, which are at the left.
        line.packets.insert(len(line.packets) - back, (now, packet))
