"""Corruption: some packets arrive with other bytes, or fewer."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import ClassVar

import attrs
from zope.interface import implementer

from broker.transport.faults.direction import BatchFilter, Direction, check_rate
from broker.transport.layer import ILinkLayer, Property


@implementer(ILinkLayer)
@attrs.frozen(kw_only=True)
class CorruptLayer:
    """Flip one bit of a packet with probability `rate`, or, one time in four, cut off its end.

    A packet with bytes never becomes empty. Raises `ConfigurationError` for a rate outside 0 to 1.
    """

    seed: int
    rate: float
    direction: Direction = Direction.BOTH

    name: ClassVar[str] = "corrupt"
    version: ClassVar[int] = 1
    requires: ClassVar[frozenset[Property]] = frozenset()
    provides: ClassVar[frozenset[Property]] = frozenset()
    #: The original packet is lost.
    breaks: ClassVar[frozenset[Property]] = frozenset({Property.RELIABLE, Property.RESUMABLE})

    def __attrs_post_init__(self) -> None:
        check_rate(self.name, self.rate)

    def create_core(self) -> CorruptCore:
        return CorruptCore(self)


class CorruptCore(BatchFilter):
    def __init__(self, layer: CorruptLayer) -> None:
        super().__init__(layer.direction)
        self.corrupted = 0
        self._rate = layer.rate
        self._random = Random(layer.seed)

    def filter_batch(self, packets: Sequence[bytes], now: float) -> Sequence[bytes]:
        return [
            self._corrupt(packet) if packet and self._random.random() < self._rate else packet
            for packet in packets
        ]

    def _corrupt(self, packet: bytes) -> bytes:
        self.corrupted += 1
        if len(packet) > 1 and self._random.random() < 0.25:
            return packet[: self._random.randrange(1, len(packet))]
        place = self._random.randrange(len(packet))
        flipped = packet[place] ^ (1 << self._random.randrange(8))
        return packet[:place] + bytes([flipped]) + packet[place + 1 :]
