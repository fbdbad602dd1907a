"""Packets into the contents of datagrams, and back."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Sequence

from broker.transport.arq.wire import NO_START

_LENGTH = struct.Struct(">I")
_pack_length = _LENGTH.pack

#: A packet is begun in the rest of a datagram only where so much of it has room.
_MIN_BEGINNING = 64


class Fragmenter:
    """A queue of packets that is cut into pieces of at most `room` bytes, when there is need.

    Each packet has its length in front, as in a stream. Small ones share a piece and are not
    torn apart; large ones go on in the next. Who uses it bounds what is in it, by `bytes`.
    """

    def __init__(self, room: int) -> None:
        #: Waiting to be cut, with the lengths.
        self.queued_bytes = 0
        self._room = room
        self._packets: deque[bytes] = deque()
        self._remainder = memoryview(b"")  # of a packet that has been begun
        self._packets_started = 0  # packets begun so far

    def __bool__(self) -> bool:
        return bool(self._packets or self._remainder)

    def add_packets(self, packets: Sequence[bytes]) -> None:
        """Take packets. Raises ValueError for an empty one, and then takes none."""
        if not all(packets):
            raise ValueError("an empty packet can not be sent")
        self._packets += packets
        self.queued_bytes += sum(map(len, packets)) + _LENGTH.size * len(packets)

    def clear(self) -> None:
        """Drop everything."""
        self._packets.clear()
        self._remainder = memoryview(b"")
        self.queued_bytes = 0

    def next_fragment(self) -> tuple[int, int, list[bytes]]:
        """The next piece, in parts: where the first packet begins in it, that packet's number
        (from 0), and the bytes. Only if there is something."""
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
                whole = memoryview(packet)
                taken = left - _LENGTH.size
                parts.append(bytes(whole[:taken]))
                self._remainder = whole[taken:]
                left = 0
                break
            parts.append(packet)
            left -= size
        self.queued_bytes -= self._room - left
        return start, first, parts
