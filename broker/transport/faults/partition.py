"""Partition: at certain times all packets are dropped, without notice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import attrs
from zope.interface import implementer

from broker.errors import ConfigurationError
from broker.transport.faults.direction import BatchFilter, Direction
from broker.transport.layer import ILinkLayer, Property


def _as_schedule(given: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    return tuple((start, end) for start, end in given)


@implementer(ILinkLayer)
@attrs.frozen(kw_only=True)
class PartitionLayer:
    """Drop every packet, without notice, while `start <= now < end` for a pair of `schedule`.

    Times are seconds of the driver's clock. With `every` (0 for never) the schedule repeats that
    many seconds after its first start. Raises `ConfigurationError` for a pair that ends before it
    starts, or after the repetition starts.
    """

    schedule: tuple[tuple[float, float], ...] = attrs.field(converter=_as_schedule)
    every: float = 0.0
    direction: Direction = Direction.BOTH

    name: ClassVar[str] = "partition"
    version: ClassVar[int] = 1
    requires: ClassVar[frozenset[Property]] = frozenset()
    provides: ClassVar[frozenset[Property]] = frozenset()
    breaks: ClassVar[frozenset[Property]] = frozenset({Property.RELIABLE, Property.RESUMABLE})

    def __attrs_post_init__(self) -> None:
        for start, end in self.schedule:
            if end < start:
                raise ConfigurationError(f"partition schedule: {end} is before {start}")
            if self.every and end > self.schedule[0][0] + self.every:
                raise ConfigurationError(f"partition every: {end} is after the repetition starts")

    def create_core(self) -> PartitionCore:
        return PartitionCore(self)


class PartitionCore(BatchFilter):
    def __init__(self, layer: PartitionLayer) -> None:
        super().__init__(layer.direction)
        self.discarded = 0
        self._schedule = layer.schedule
        self._every = layer.every

    def filter_batch(self, packets: Sequence[bytes], now: float) -> Sequence[bytes]:
        if self._every and self._schedule:
            first = self._schedule[0][0]
            now = first + (now - first) % self._every if now >= first else now
        if any(start <= now < end for start, end in self._schedule):
            self.discarded += len(packets)
            return []
        return packets
