"""A link stack over raw datagrams: one message in flight, sent again until it is acknowledged.

A packet is a byte (DATA or ACK), the sender's incarnation and a number, 8 bytes each, and for DATA
the message. The receiver delivers what is newer than the last: incarnations rise, too.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Sequence
from typing import ClassVar

import attrs
from twisted.plugin import IPlugin
from zope.interface import implementer

from broker.config import value_kind
from broker.config.setting import setting
from broker.errors import Overloaded
from broker.transport.arq.fragmentation_layer import FragmentationLayer
from broker.transport.arq.mac_layer import MacLayer
from broker.transport.effects import DeliverUp, Effect, SendDown
from broker.transport.layer import ILayer, ILinkLayer, LinkPassThrough, Property
from broker.transport.stacks import IProtocolStack, StackSettings, Transport

_HEAD = struct.Struct(">BQQ")
DATA, ACK = 0, 1
#: It leaves room in a datagram for the tags of the port, of a key, and against damage.
PACKET_BYTES = 1300


@attrs.frozen(kw_only=True)
class StopAndWaitOptions:
    repeat: float = setting(
        value_kind.duration(0.01, 60.0), 0.1, "Time until a message is sent again."
    )
    tries: int = setting(
        value_kind.count(1, 1000), 50, "Attempts until all waiting messages are dropped."
    )
    queue: int = setting(value_kind.count(1, 100_000), 1000, "Messages that wait for one peer.")


class StopAndWaitCore(LinkPassThrough):
    def __init__(self, incarnation: int, options: StopAndWaitOptions) -> None:
        self._incarnation = incarnation
        self._options = options
        self._waiting: deque[bytes] = deque()
        self._number = 0
        self._sent = 0
        self._repeat_at: float | None = None
        self._peer: tuple[int, int] = (0, 0)

    def submit(self, packets: Sequence[bytes], now: float) -> list[Effect]:
        if len(self._waiting) + len(packets) > self._options.queue:
            raise Overloaded(f"{len(self._waiting)} messages wait for the peer")
        idle = not self._waiting
        self._waiting += packets
        return self._send(now) if idle and packets else []

    def receive(self, packets: Sequence[bytes], now: float) -> list[Effect]:
        effects: list[Effect] = []
        for packet in packets:
            if len(packet) < _HEAD.size:
                continue
            kind, incarnation, number = _HEAD.unpack_from(packet)
            if kind == DATA:
                effects.append(SendDown([_HEAD.pack(ACK, incarnation, number)]))
                if (incarnation, number) > self._peer:
                    self._peer = incarnation, number
                    effects.append(DeliverUp([packet[_HEAD.size :]]))
            elif (kind, incarnation, number) == (ACK, self._incarnation, self._number):
                if self._repeat_at is not None:
                    self._waiting.popleft()
                    self._repeat_at = None
                    effects += self._send(now) if self._waiting else []
        return effects

    def _send(self, now: float) -> list[Effect]:
        """Send the oldest packet for the first time."""
        self._number += 1
        self._sent = 0
        return self._repeat(now)

    def _repeat(self, now: float) -> list[Effect]:
        self._sent += 1
        self._repeat_at = now + self._options.repeat
        head = _HEAD.pack(DATA, self._incarnation, self._number)
        return [SendDown([head + self._waiting[0]])]

    def handle_timeout(self, now: float) -> list[Effect]:
        if self._repeat_at is None or now < self._repeat_at:
            return []
        if self._sent < self._options.tries:
            return self._repeat(now)
        # The peer is gone. What it misses comes from the log.
        self._waiting.clear()
        self._repeat_at = None
        return []

    def next_timeout(self) -> float | None:
        return self._repeat_at


@implementer(ILinkLayer)
@attrs.frozen
class StopAndWaitLayer:
    incarnation: int
    options: StopAndWaitOptions
    name: ClassVar[str] = "stop-and-wait"
    version: ClassVar[int] = 1
    requires: ClassVar[frozenset[Property]] = frozenset({Property.FRAMED})
    provides: ClassVar[frozenset[Property]] = frozenset({Property.FIFO})
    breaks: ClassVar[frozenset[Property]] = frozenset()

    def create_core(self) -> StopAndWaitCore:
        return StopAndWaitCore(self.incarnation, self.options)


@implementer(IPlugin, IProtocolStack)
@attrs.frozen
class StopAndWait:
    name: ClassVar[str] = "stop_and_wait"
    version: ClassVar[int] = 1
    summary: ClassVar[str] = "one message in flight over raw datagrams, sent until acknowledged"
    options: ClassVar[type] = StopAndWaitOptions
    transports: ClassVar[frozenset[Transport]] = frozenset({Transport.DATAGRAM})

    def layers(self, settings: StackSettings) -> list[ILayer]:
        options = settings.options or StopAndWaitOptions()
        assert isinstance(options, StopAndWaitOptions)
        incarnation = settings.incarnation
        fragments = FragmentationLayer(incarnation=incarnation, packet_bytes=PACKET_BYTES)
        return [MacLayer(), fragments, StopAndWaitLayer(incarnation, options)]


stop_and_wait = StopAndWait()
