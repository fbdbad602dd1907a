"""A layer and a stack of another package: stop and wait over raw datagrams.

One message is under way at a time, and is repeated until its acknowledgement. The place of a
message in its sender's life tells repetitions apart: `kind u8, incarnation u64, number u64`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from struct import Struct
from typing import ClassVar

import attrs
from twisted.plugin import IPlugin
from zope.interface import implementer

from broker.errors import Overloaded
from broker.transport.effects import DeliverUp, Effect, SendDown, ViewChanged
from broker.transport.layer import ILayer, ILinkLayer, LinkPassThrough, Property
from broker.transport.stacks import IProtocolStack, StackSettings, Transport
from broker.transport.view import LinkState, View

HEAD = Struct(">BQQ")
MESSAGE, ACKNOWLEDGEMENT = 1, 2


@implementer(ILinkLayer)
@attrs.frozen(kw_only=True)
class StopAndWaitLayer:
    incarnation: int
    retry: float = 0.05
    #: Messages; more raise `Overloaded`.
    queue: int = 1000

    name: ClassVar[str] = "stop and wait"
    version: ClassVar[int] = 1
    requires: ClassVar[frozenset[Property]] = frozenset({Property.FRAMED})
    provides: ClassVar[frozenset[Property]] = frozenset({Property.FIFO, Property.RELIABLE})
    breaks: ClassVar[frozenset[Property]] = frozenset()

    def create_core(self) -> StopAndWaitCore:
        return StopAndWaitCore(self)


class StopAndWaitCore(LinkPassThrough):
    def __init__(self, layer: StopAndWaitLayer) -> None:
        self.repeated = 0
        self._layer = layer
        self._queue: deque[bytes] = deque()
        self._number = 1  # of the first message of the queue
        self._retry_at: float | None = None
        self._is_connected = False
        self._last_received = (0, 0)  # incarnation and number

    def submit(self, packets: Sequence[bytes], now: float) -> list[Effect]:
        if len(self._queue) + len(packets) > self._layer.queue:
            raise Overloaded("too many messages wait")
        is_idle = not self._queue
        self._queue += packets
        return self._send_first(now) if is_idle else []

    def receive(self, packets: Sequence[bytes], now: float) -> list[Effect]:
        effects: list[Effect] = []
        for packet in packets:
            if len(packet) < HEAD.size:
                continue
            kind, incarnation, number = HEAD.unpack_from(packet)
            if kind == MESSAGE:
                acknowledgement = HEAD.pack(ACKNOWLEDGEMENT, incarnation, number)
                effects.append(SendDown([acknowledgement]))
                # The sender goes on only after an acknowledgement, so a later number is the next.
                if (incarnation, number) > self._last_received:
                    self._last_received = incarnation, number
                    effects.append(DeliverUp([packet[HEAD.size :]]))
            elif (incarnation, number) == (self._layer.incarnation, self._number) and self._queue:
                self._queue.popleft()
                self._number += 1
                effects += self._send_first(now)
        return effects

    def view_changed(self, view: View, now: float) -> list[Effect]:
        self._is_connected = view.state is LinkState.CONNECTED
        return [ViewChanged(view), *self._send_first(now)]

    def handle_timeout(self, now: float) -> list[Effect]:
        if self._retry_at is None or now < self._retry_at:
            return []
        self.repeated += 1
        return self._send_first(now)

    def next_timeout(self) -> float | None:
        return self._retry_at

    def _send_first(self, now: float) -> list[Effect]:
        self._retry_at = None
        if not self._queue or not self._is_connected:
            return []
        self._retry_at = now + self._layer.retry
        head = HEAD.pack(MESSAGE, self._layer.incarnation, self._number)
        return [SendDown([head + self._queue[0]])]


@attrs.frozen
class NoOptions:
    """A stack without options."""


@implementer(IPlugin, IProtocolStack)
class StopAndWaitStack:
    name: ClassVar[str] = "stop-and-wait"
    version: ClassVar[int] = 1
    summary: ClassVar[str] = "one message at a time, over raw datagrams"
    options: ClassVar[type] = NoOptions
    transports: ClassVar[frozenset[Transport]] = frozenset({Transport.DATAGRAM})

    def layers(self, settings: StackSettings) -> list[ILayer]:
        return [StopAndWaitLayer(incarnation=settings.incarnation)]
