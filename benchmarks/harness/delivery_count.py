"""Count the deliveries of one subscription by their headers alone."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

import msgpack

from benchmarks.harness.failure import BenchmarkFailed
from broker.errors import from_wire
from broker.wire import messages
from broker.wire.messages import DELIVER, Ended, Flowing, Gap, Progress, Refuse, Subscribed
from broker.wire.site_notice import MessagesCovered, StatusChanged

_HEAD: Final = struct.Struct(">BII")


class DeliveryCount:
    """Checks that every event after the cut comes once, in the order of its origin.

    `everything`: no place may be missing; otherwise places must rise. The first event of an origin
    outside the cut may have any place. Only headers of deliveries are read, but lengths must add
    up. `behind`: start after this position instead.
    """

    def __init__(
        self, *, everything: bool = True, behind: Mapping[str, tuple[int, int]] | None = None
    ) -> None:
        self._everything = everything
        self._begins_at_cut = behind is None
        self.flowing = False
        self.events = 0
        self.deliveries = 0
        """With events."""
        self.dropped = 0
        """Events that the node reported as dropped, because this subscriber was too slow."""
        self._next = {origin: (epoch, at + 1) for origin, (epoch, at) in (behind or {}).items()}
        """Epoch and offset of the next expected event, by origin."""

    @property
    def total(self) -> int:
        return self.events + self.dropped

    def count_message(self, data: bytes) -> None:
        """Raises `BenchmarkFailed` for a hole or a duplicate."""
        if data[0] == DELIVER:
            self._count_delivery(data)
            return
        message = messages.decode(data)
        if isinstance(message, Flowing):
            if self._begins_at_cut:
                self._next = {origin: (epoch, at + 1) for origin, epoch, at in message.cut}
            self.flowing = True
        elif isinstance(message, Gap):
            self._check_place(message.origin, message.first)
            self._next[message.origin] = (message.last[0], message.last[1] + 1)
            self.dropped += message.count
        elif isinstance(message, Ended | Refuse):
            raise BenchmarkFailed(f"the subscription was ended: {from_wire(message.error)}")
        elif not isinstance(message, Subscribed | Progress | StatusChanged | MessagesCovered):
            raise BenchmarkFailed(f"{type(message).__name__} is not for a subscriber")

    def _count_delivery(self, data: bytes) -> None:
        _, header_length, records_length = _HEAD.unpack_from(data)
        start = _HEAD.size + header_length
        header = msgpack.unpackb(memoryview(data)[_HEAD.size : start])
        _, _, _, subscriptions, places, lengths = header
        count = 0
        for origin, epoch, first, length in places:
            self._check_place(origin, (epoch, first))
            self._next[origin] = (epoch, first + length)
            count += length
        numbered = sum(run[0] for run in subscriptions)
        whole = start + records_length + sum(lengths)
        if not (count == len(lengths) == numbered and whole == len(data)):
            raise BenchmarkFailed("a delivery does not add up")
        self.events += count
        self.deliveries += 1

    def _check_place(self, origin: str, place: tuple[int, int]) -> None:
        due = self._next.get(origin, place)
        if place < due or (self._everything and place != due):
            raise BenchmarkFailed(f"place {place} of {origin} came instead of {due}")
