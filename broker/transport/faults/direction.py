"""Directions of faults, and the base of faults that act at once."""

from __future__ import annotations

import enum
from abc import abstractmethod
from collections.abc import Sequence

from broker.errors import ConfigurationError
from broker.transport.effects import DeliverUp, Effect, SendDown
from broker.transport.layer import LinkPassThrough


class Direction(enum.Flag):
    """Down is from this end to the peer."""

    DOWN = enum.auto()
    UP = enum.auto()
    BOTH = DOWN | UP


def check_rate(layer: str, rate: float) -> None:
    if not 0.0 <= rate <= 1.0:
        raise ConfigurationError(f"{layer} rate: {rate} is not in 0 to 1")


def check_positive(layer: str, name: str, value: float) -> None:
    if value <= 0:
        raise ConfigurationError(f"{layer} {name}: {value} is not more than 0")


class BatchFilter(LinkPassThrough):
    """A core that replaces each batch at once."""

    def __init__(self, direction: Direction) -> None:
        self._direction = direction

    def submit(self, messages: Sequence[bytes], now: float) -> list[Effect]:
        if Direction.DOWN in self._direction:
            messages = self.filter_batch(messages, now)
        return [SendDown(messages)] if messages else []

    def receive(self, packets: Sequence[bytes], now: float) -> list[Effect]:
        if Direction.UP in self._direction:
            packets = self.filter_batch(packets, now)
        return [DeliverUp(packets)] if packets else []

    @abstractmethod
    def filter_batch(self, packets: Sequence[bytes], now: float) -> Sequence[bytes]:
        """Return the packets that replace a batch."""
