"""Fragmentation of packets into the contents of datagrams, and their reassembly."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Sequence

from broker.errors import BrokerError
from broker.transport.arq.wire import NO_START, Data
from broker.transport.socket.framing import FrameDecoder

_LENGTH = struct.Struct(">I")
_pack_length = _LENGTH.pack

#: Bytes of a packet that must fit into the rest of a datagram.
_MIN_BEGINNING = 64
_PACKET_MODULUS = 2**32


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


class Reassembler:
    """Packets from fragments in rising order. Missing fragments are reported as lost packets."""

    def __init__(self, max_frame: int, first: int = 1) -> None:
        #: Larger than this end accepts.
        self.oversized = 0
        self._max_frame = max_frame
        self._decoder = FrameDecoder(max_frame)
        self._first = first
        self._number = first - 1
        self._is_resynchronising = first > 1  # the first fragment may begin within a packet
        self._packet: int | None = None if self._is_resynchronising else 0  # the next one, if known

    def add_fragments(self, fragments: Iterable[Data]) -> list[tuple[int, list[bytes]]]:
        """Return runs of packets, each with the count of packets lost before it."""
        runs: list[tuple[int, list[bytes]]] = []
        pieces: list[bytes] = []
        for data in fragments:
            piece = data.piece
            if data.number != self._number + 1 and not self._is_resynchronising:
                self._decode_pieces(pieces, runs)
                self._is_resynchronising = True
            self._number = data.number
            if self._is_resynchronising:
                if data.start == NO_START:
                    continue
                piece = piece[data.start :]
                self._start_packet(data.packet, runs)
            pieces.append(piece)
        self._decode_pieces(pieces, runs)
        return [run for run in runs if run[0] or run[1]]

    def _start_packet(self, packet: int, runs: list[tuple[int, list[bytes]]]) -> None:
        self._is_resynchronising = False
        self._decoder = FrameDecoder(self._max_frame)
        if self._packet is None:
            # The count is unknown.
            missed = int(self._number > self._first)
        else:
            missed = (packet - self._packet) % _PACKET_MODULUS
        self._packet = packet
        runs.append((missed, []))

    def _decode_pieces(self, pieces: list[bytes], runs: list[tuple[int, list[bytes]]]) -> None:
        if not pieces:
            return
        try:
            packets = self._decoder.feed(b"".join(pieces))
        except BrokerError:
            # Continue where another packet begins.
            self.oversized += 1
            self._is_resynchronising = True
            packets = []
        pieces.clear()
        if not runs:
            runs.append((0, []))
        runs[-1][1].extend(packets)
        self._packet = ((self._packet or 0) + len(packets)) % _PACKET_MODULUS
