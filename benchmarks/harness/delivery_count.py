"""Counting what a subscriber gets, from the headers of deliveries alone."""

from __future__ import annotations

import struct
from typing import Final

import msgpack

from benchmarks.harness.failure import BenchmarkFailed
from broker.errors import from_wire
from broker.session import messages
from broker.session.messages import DELIVER, Ended, Flowing, Gap, Progress, Refuse, Subscribed

_HEAD: Final = struct.Struct(">BII")


class DeliveryCount:
    """One subscription of everything: every offset after the cut must come, once and in order.

    The headers of events and their documents are not looked at, but their lengths must add up.
    """

    def __init__(self) -> None:
        self.flowing = False
        self.events = 0
        self.deliveries = 0
        """Messages that brought them."""
        self.dropped = 0
        """Events that the node told it had dropped: this subscriber was too slow."""
        self._next: tuple[int, int] = (0, 0)
        """Epoch and offset of the event that must come next."""

    @property
    def total(self) -> int:
        """Events that came or were told as dropped."""
        return self.events + self.dropped

    def take(self, data: bytes) -> None:
        """One message of the node. Raises `BenchmarkFailed` for a hole or a duplicate."""
        if data[0] == DELIVER:
            self._deliver(data)
            return
        message = messages.decode(data)
        if isinstance(message, Flowing):
            [(_, epoch, offset)] = message.cut
            self._next = (epoch, offset + 1)
            self.flowing = True
        elif isinstance(message, Gap):
            self._expect(message.first[0], message.first[1])
            self._next = (message.last[0], message.last[1] + 1)
            self.dropped += message.count
        elif isinstance(message, Ended | Refuse):
            raise BenchmarkFailed(f"the subscription was ended: {from_wire(message.error)}")
        elif not isinstance(message, Subscribed | Progress):
            raise BenchmarkFailed(f"{type(message).__name__} is not for a subscriber")

    def _deliver(self, data: bytes) -> None:
        _, header_length, records_length = _HEAD.unpack_from(data)
        start = _HEAD.size + header_length
        header = msgpack.unpackb(memoryview(data)[_HEAD.size : start])
        _, _, _, subscriptions, places, lengths = header
        count = 0
        for _, epoch, first, length in places:
            self._expect(epoch, first)
            self._next = (epoch, first + length)
            count += length
        numbered = sum(run[0] for run in subscriptions)
        whole = start + records_length + sum(lengths)
        if not (count == len(lengths) == numbered and whole == len(data)):
            raise BenchmarkFailed("a delivery does not add up")
        self.events += count
        self.deliveries += 1

    def _expect(self, epoch: int, offset: int) -> None:
        if (epoch, offset) != self._next:
            raise BenchmarkFailed(f"place {epoch}:{offset} came instead of {self._next}")
