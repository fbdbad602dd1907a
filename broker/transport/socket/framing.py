"""Packets in a stream of bytes: each with its length in front, four bytes, big-endian.

The bytes on the wire are `length:u32 packet[length]`, again and again, with 1 <= length <=
`max_frame`. Anything that is not this protocol (an HTTP request, a TLS record) starts with an
absurd length, and is refused after its first four bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NoReturn

from broker.errors import BrokerError, FrameTooLarge, ProtocolError

_LENGTH = struct.Struct(">I")
_unpack_length = _LENGTH.unpack_from
_pack_length = _LENGTH.pack

#: Pieces shorter than this are gathered before they are kept, so that a frame sent byte by byte
#: does not cost an object for each byte.
_SMALL_PIECE = 1024
_FLUSH_BYTES = 64 * 1024


def encode_frames(packets: Sequence[bytes]) -> list[bytes]:
    """The bytes that carry `packets`, in pieces: who writes them joins them with what else there
    is. Raises ValueError for an empty packet."""
    pieces: list[bytes] = []
    for packet in packets:
        if not packet:
            raise ValueError("an empty packet can not be sent")
        pieces.append(_pack_length(len(packet)))
        pieces.append(packet)
    return pieces


def _guess_protocol(length: int) -> str:
    """What else it may be whose first four bytes are taken for this length."""
    head = _pack_length(length)
    if head in (b"HTTP", b"GET ", b"POST", b"HEAD", b"PUT "):
        return ": this is HTTP"
    # The records of an alert and of a handshake, of versions 1.0 and later.
    return ": this is TLS" if head[:2] in (b"\x15\x03", b"\x16\x03") else ""


class FrameDecoder:
    """Cuts packets out of a stream that arrives in pieces of any size.

    Holds at most `max_frame` bytes of an unfinished frame and a few per cent for book-keeping.
    A frame is copied once, whatever the number of reads it came in (twice for the part that came
    in very small pieces).
    """

    def __init__(self, max_frame: int) -> None:
        #: Greatest frame accepted, in bytes. May be set at any time; it counts when the next
        #: length is read.
        self.max_frame = max_frame
        self._length = b""  # the bytes that are there of an unfinished length
        self._bytes_missing = 0  # bytes that the unfinished frame still wants; 0 when there is none
        self._pieces: list[bytes] = []
        self._small_pieces = bytearray()
        self._error: BrokerError | None = None

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that `data` completes, in order.

        Raises `FrameTooLarge` as soon as a length beyond `max_frame` is seen and `ProtocolError`
        for a length of 0; frames of the same `data` are then lost with the connection. Once it
        has raised it raises again.
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
            here = size - start
            if here < self._bytes_missing:
                self._append_piece(data[start:] if start else data)
                self._bytes_missing -= here
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
        """Forget what is unfinished; True if there was a half frame."""
        half = bool(self._length or self._bytes_missing)
        self._length = b""
        self._bytes_missing = 0
        self._pieces.clear()
        self._small_pieces.clear()
        return half

    def _reject(self, length: int) -> NoReturn:
        if length == 0:
            self._error = ProtocolError("a frame of length 0")
        else:
            self._error = FrameTooLarge(
                f"a frame announces {length} bytes, and {self.max_frame} are accepted"
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
