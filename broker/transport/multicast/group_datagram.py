"""Datagrams to a group: pieces of a body, encrypted with a key that its sender tells its peers."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from broker.errors import ProtocolError

#: Bytes of a datagram without the headers of UDP and IP.
MOST_DATAGRAM: Final = 1300
#: Larger bodies go as copies.
MOST_BODY: Final = 64 << 10
#: Bodies of one sender of which pieces are missing. The oldest is dropped.
MOST_PARTIAL: Final = 16

_KIND: Final = 1
_START = struct.Struct(">BB")
_NUMBERS = struct.Struct(">QHH")
_NONCE = struct.Struct(">QI")
_TAG_BYTES: Final = 16
MOST_PIECES: Final = 2**16 - 1


class Piece(NamedTuple):
    source: str
    counter: int
    place: int
    pieces: int
    """Of the body."""
    header: bytes
    encrypted: bytes


def encode_body(source: str, key: bytes, counter: int, payload: bytes) -> Iterator[bytes]:
    """Yield the datagrams of a body. A counter is used once for each key."""
    name = source.encode()
    start = _START.pack(_KIND, len(name)) + name
    room = MOST_DATAGRAM - len(start) - _NUMBERS.size - _TAG_BYTES
    count = max(1, -(-len(payload) // room))
    cipher = ChaCha20Poly1305(key)
    for index in range(count):
        header = start + _NUMBERS.pack(counter, index, count)
        piece = payload[index * room : (index + 1) * room]
        yield header + cipher.encrypt(_NONCE.pack(counter, index), piece, header)


def decode_piece(datagram: bytes) -> Piece:
    """Decode a datagram of anyone. Raises `ProtocolError`."""
    try:
        kind, size = _START.unpack_from(datagram)
        end = _START.size + size
        source = datagram[_START.size : end].decode()
        counter, index, count = _NUMBERS.unpack_from(datagram, end)
    except (struct.error, UnicodeDecodeError) as error:
        raise ProtocolError(f"malformed datagram of a group: {error}") from None
    if kind != _KIND or index >= count:
        raise ProtocolError(f"a datagram of the kind {kind}, piece {index} of {count}")
    end += _NUMBERS.size
    return Piece(source, counter, index, count, datagram[:end], datagram[end:])


class Assembly:
    """Bodies of one sender from their pieces: at most `MOST_PARTIAL` of `MOST_BODY` bytes."""

    def __init__(self, key: bytes) -> None:
        self.key = key
        self._cipher = ChaCha20Poly1305(key)
        self._partial: dict[int, dict[int, bytes]] = {}
        """Pieces by index, by counter."""

    def add_piece(self, piece: Piece) -> bytes | None:
        """Return the body if it is complete. Raises `ProtocolError` for a forged datagram."""
        nonce = _NONCE.pack(piece.counter, piece.place)
        try:
            data = self._cipher.decrypt(nonce, piece.encrypted, piece.header)
        except InvalidTag:
            raise ProtocolError(f"a forged datagram in the name of {piece.source}") from None
        if piece.pieces == 1:
            return data
        if piece.pieces * len(data) > MOST_BODY + MOST_DATAGRAM:
            raise ProtocolError(f"{piece.source} sends a body of {piece.pieces} pieces")
        pieces = self._partial.setdefault(piece.counter, {})
        pieces[piece.place] = data
        if len(pieces) == piece.pieces:
            del self._partial[piece.counter]
            return b"".join(pieces[index] for index in range(piece.pieces))
        if len(self._partial) > MOST_PARTIAL:
            del self._partial[next(iter(self._partial))]
        return None
