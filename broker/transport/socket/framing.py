"""Framing: packets in a byte stream, each preceded by its length.

The stream is repeated `length:u32 packet[length]`, big-endian, with 1 <= length <= `max_frame`.
Another protocol (HTTP, TLS) begins with an impossible length, and is rejected after four bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NoReturn

from broker.errors import BrokerError, FrameTooLarge, ProtocolError

_LENGTH = struct.Struct(">I")
_unpack_length = _LENGTH.unpack_from
_pack_length = _LENGTH.pack

#: Shorter pieces are joined: a frame sent byte by byte must not cost an object for each.
_SMALL_PIECE = 1024
_FLUSH_BYTES = 64 * 1024


def encode_frames(packets: Sequence[bytes]) -> list[bytes]:
    """Raises ValueError for an empty packet."""
    pieces: list[bytes] = []
    for packet in packets:
        if not packet:
            raise ValueError("an empty packet can not be sent")
        pieces.append(_pack_length(len(packet)))
        pieces.append(packet)
    return pieces


def _guess_protocol(length: int) -> str:
    head = _pack_length(length)
    if head in (b"HTTP", b"GET ", b"POST", b"HEAD", b"PUT "):
        return ": this is HTTP"
    # Records of an alert and of a handshake.
    return ": this is TLS" if head[:2] in (b"\x15\x03", b"\x16\x03") else ""


class FrameDecoder:
    """Extract packets from a stream that arrives in pieces of any size.

    Stores at most `max_frame` bytes of an unfinished frame, and a few per cent more. A frame is
    copied once for any number of reads.
    """

    def __init__(self, max_frame: int) -> None:
        #: Bytes, for the next length.
        self.max_frame = max_frame
        self._length = b""  # unfinished
        self._bytes_missing = 0  # of the unfinished frame; 0 if there is none
        self._pieces: list[bytes] = []
        self._small_pieces = bytearray()
        self._error: BrokerError | None = None

    def feed(self, data: bytes) -> list[bytes]:
        """Return the frames that `data` completes, in order.

        Raises `FrameTooLarge` for a length beyond `max_frame`, and `ProtocolError` for a length of
        0. Frames of the same `data` are then lost. Later calls raise again.
        """
        if self._error is not None:
            raise self._error
        frames: list[bytes] = []
        start = 0
        size = len(data)
        if not size:
            return frames
        if self._length:
            start = min(_LENGTH.size - len(self._length), size)
            self._length += data[:start]
            if len(self._length) < _LENGTH.size:
                return frames
            self._bytes_missing = _unpack_length(self._length)[0]
            if not 0 < self._bytes_missing <= self.max_frame:
                self._reject(self._bytes_missing)
            self._length = b""
        if self._bytes_missing:
            available = size - start
            if available < self._bytes_missing:
                self._append_piece(data[start:] if start else data)
                self._bytes_missing -= available
                return frames
            end = start + self._bytes_missing
            frames.append(self._join_frame(data[start:end]))
            start = end
        while size - start >= _LENGTH.size:
            length = _unpack_length(data, start)[0]
            if not 0 < length <= self.max_frame:
                self._reject(length)
            start += _LENGTH.size
            end = start + length
            if end > size:
                self._bytes_missing = end - size
                if start < size:
                    self._append_piece(data[start:])
                return frames
            frames.append(data[start:end])
            start = end
        self._length = data[start:]
        return frames

    def close(self) -> bool:
        """Return True if there was an unfinished frame."""
        is_incomplete = bool(self._length or self._bytes_missing)
        self._length = b""
        self._bytes_missing = 0
        self._pieces.clear()
        self._small_pieces.clear()
        return is_incomplete

    def _reject(self, length: int) -> NoReturn:
        if length == 0:
            self._error = ProtocolError("a frame has length 0")
        else:
            self._error = FrameTooLarge(
                f"a frame has {length} bytes; at most {self.max_frame} are accepted"
                + _guess_protocol(length)
            )
        self.close()
        raise self._error

    def _append_piece(self, piece: bytes) -> None:
        if len(piece) >= _SMALL_PIECE:
            self._flush_small_pieces()
            self._pieces.append(piece)
            return
        self._small_pieces += piece
        if len(self._small_pieces) >= _FLUSH_BYTES:
            self._flush_small_pieces()

    def _flush_small_pieces(self) -> None:
        if self._small_pieces:
            self._pieces.append(bytes(self._small_pieces))
            self._small_pieces.clear()

    def _join_frame(self, last: bytes) -> bytes:
        self._bytes_missing = 0
        if not self._pieces and not self._small_pieces:
            return last
        self._flush_small_pieces()
        self._pieces.append(last)
        frame = b"".join(self._pieces)
        self._pieces.clear()
        return frame
