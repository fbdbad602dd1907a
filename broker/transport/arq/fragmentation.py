"""Fragmentation of packets into the contents of datagrams."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Sequence

from broker.transport.arq.wire import NO_START

_LENGTH = struct.Struct(">I")
_pack_length = _LENGTH.pack

#: Bytes of a packet that must fit into the rest of a datagram.
_MIN_BEGINNING = 64


class Fragmenter:
    """A queue of packets, cut on demand into fragments of at most `room` bytes.

    Each packet is preceded by its length. Only packets larger than a fragment are split. The caller
    bounds the queue by `queued_bytes`.
    """

    def __init__(self, room: int) -> None:
        self.queued_bytes = 0
        self._room = room
        self._packets: deque[bytes] = deque()
        self._remainder = memoryview(b"")
        self._packets_started = 0

    def __bool__(self) -> bool:
        return bool(self._packets or self._remainder)

    def add_packets(self, packets: Sequence[bytes]) -> None:
        """Raises ValueError, and appends none, if a packet is empty."""
        if not all(packets):
            raise ValueError("an empty packet can not be sent: give at least one byte")
        self._packets += packets
        self.queued_bytes += sum(map(len, packets)) + _LENGTH.size * len(packets)

    def next_fragment(self) -> tuple[int, int, list[bytes]]:
        """Return offset and number (from 0) of the first packet that begins in the next
        fragment, and its bytes. The queue must not be empty."""
        parts: list[bytes] = []
        left = self._room
        if self._remainder:
            part = self._remainder[:left]
            self._remainder = self._remainder[left:]
            left -= len(part)
            parts.append(bytes(part))
        start, first = NO_START, 0
        packets = self._packets
        while packets:
            packet = packets[0]
            size = len(packet) + _LENGTH.size
            if size > left and (size <= self._room or left < _MIN_BEGINNING):
                break
            packets.popleft()
            if start == NO_START:
                start, first = self._room - left, self._packets_started
            self._packets_started += 1
            parts.append(_pack_length(len(packet)))
            if size > left:
                packet_view = memoryview(packet)
                split_at = left - _LENGTH.size
                parts.append(bytes(packet_view[:split_at]))
                self._remainder = packet_view[split_at:]
                left = 0
                break
            parts.append(packet)
            left -= size
        self.queued_bytes -= self._room - left
        return start, first, parts
