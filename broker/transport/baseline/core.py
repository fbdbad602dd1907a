"""The core of a link that loses messages with its connections (RCM R41)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final
from zlib import crc32

from broker.errors import Overloaded, ProtocolError
from broker.transport.effects import DeliverUp, Effect, Failed, SendDown, ViewChanged
from broker.transport.layer import LinkPassThrough
from broker.transport.view import LinkState, View

#: Kind, and check of all that follows. A monitor below tells its own packets by their first byte.
_START: Final = struct.Struct(">BI")
_NUMBER: Final = struct.Struct(">Q")
_KIND: Final = 0x10
_MESSAGE_COST: Final = 64


class PlainCore(LinkPassThrough):
    """Send each message once, and drop repeated ones.

    With a buffer, messages to a suspected peer wait until it is connected: at most `buffer_bytes`,
    then `Overloaded`. They are dropped when it is disconnected.
    """

    def __init__(self, buffer_bytes: int) -> None:
        self._buffer_bytes = buffer_bytes
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._is_connected = False
        self._sent = self._received = 0

    def submit(self, packets: Sequence[bytes], now: float) -> list[Effect]:
        marked = [self._encode(packet) for packet in packets]
        if self._is_connected or not self._buffer_bytes:
            return [SendDown(marked)]
        cost = sum(map(len, marked)) + _MESSAGE_COST * len(marked)
        if self._waiting_bytes + cost > self._buffer_bytes:
            raise Overloaded(f"{self._waiting_bytes} bytes wait for a suspected peer")
        self._waiting_bytes += cost
        self._waiting += marked
        return []

    def receive(self, packets: Sequence[bytes], now: float) -> list[Effect]:
        messages: list[bytes] = []
        for packet in packets:
            body = packet[_START.size :]
            if len(body) < _NUMBER.size or not packet.startswith(_start(body)):
                error = ProtocolError(f"a packet of {len(packet)} bytes fails its check")
                return [DeliverUp(messages), Failed(error)]
            (number,) = _NUMBER.unpack_from(body)
            if number > self._received:
                self._received = number
                messages.append(body[_NUMBER.size :])
        return [DeliverUp(messages)]

    def view_changed(self, view: View, now: float) -> list[Effect]:
        self._is_connected = view.state is LinkState.CONNECTED
        if self._is_connected and not view.resumed:
            self._received = 0
        effects: list[Effect] = [ViewChanged(view)]
        if view.state is LinkState.SUSPECTED and not view.is_restarted:
            return effects
        if self._waiting and self._is_connected:
            effects.append(SendDown(self._waiting))
        # A disconnected peer gets none of them.
        self._waiting, self._waiting_bytes = [], 0
        return effects

    def _encode(self, message: bytes) -> bytes:
        self._sent += 1
        body = _NUMBER.pack(self._sent) + message
        return _start(body) + body


def _start(body: bytes) -> bytes:
    return _START.pack(_KIND, crc32(body, _KIND))
