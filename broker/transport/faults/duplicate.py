"""Duplication: some packets arrive twice."""

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
class DuplicateLayer:
    """Repeat each packet directly after itself with probability `rate`.

    Raises `ConfigurationError` for a rate outside 0 to 1.
    """

    seed: int
    rate: float
    direction: Direction = Direction.BOTH

    name: ClassVar[str] = "duplicate"
    version: ClassVar[int] = 1
    requires: ClassVar[frozenset[Property]] = frozenset()
    provides: ClassVar[frozenset[Property]] = frozenset()
    #: A copy uses credit that was not granted.
    breaks: ClassVar[frozenset[Property]] = frozenset({Property.RESUMABLE, Property.BACKPRESSURE})

    def __attrs_post_init__(self) -> None:
        check_rate(self.name, self.rate)

    def create_core(self) -> DuplicateCore:
        return DuplicateCore(self)


class DuplicateCore(BatchFilter):
    def __init__(self, layer: DuplicateLayer) -> None:
        super().__init__(layer.direction)
        self.duplicated = 0
        self._rate = layer.rate
        self._random = Random(layer.seed)

    def filter_batch(self, packets: Sequence[bytes], now: float) -> Sequence[bytes]:
        result: list[bytes] = []
        for packet in packets:
            result.append(packet)
            if self._random.random() < self._rate:
                result.append(packet)
                self.duplicated += 1
        return result
