"""Loss: some packets disappear."""

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
class DiscardLayer:
    """Drop packets with probability `rate`. Raises `ConfigurationError` for a rate outside 0 to
    1."""

    seed: int
    rate: float
    direction: Direction = Direction.BOTH

    name: ClassVar[str] = "discard"
    version: ClassVar[int] = 1
    requires: ClassVar[frozenset[Property]] = frozenset()
    provides: ClassVar[frozenset[Property]] = frozenset()
    breaks: ClassVar[frozenset[Property]] = frozenset({Property.RELIABLE, Property.RESUMABLE})

    def __attrs_post_init__(self) -> None:
        check_rate(self.name, self.rate)

    def create_core(self) -> DiscardCore:
        return DiscardCore(self)


class DiscardCore(BatchFilter):
    def __init__(self, layer: DiscardLayer) -> None:
        super().__init__(layer.direction)
        self.discarded = 0
        self._rate = layer.rate
        self._random = Random(layer.seed)

    def filter_batch(self, packets: Sequence[bytes], now: float) -> Sequence[bytes]:
        survivors = [packet for packet in packets if self._random.random() >= self._rate]
        self.discarded += len(packets) - len(survivors)
        return survivors
