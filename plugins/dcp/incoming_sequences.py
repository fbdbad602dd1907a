"""The sequences of a parent, by their indexes on its connection."""

from __future__ import annotations

import struct
from typing import Final

from broker.errors import ProtocolError
from plugins.dcp.control import MOST_SEQUENCES, SequenceStart, decode_start
from plugins.dcp.event_range import Description, SequenceKey
from plugins.dcp.feedback import MOST_ENDS
from plugins.dcp.packet import EXTENDED, Packet

_LENGTH: Final = struct.Struct(">H")


def encode_opening(start: bytes) -> bytes:
    """Return the begin of the body of a packet that describes its sequence."""
    return _LENGTH.pack(len(start)) + start


def decode_opening(body: bytes) -> tuple[SequenceStart, bytes]:
    """Return the sequence that a body describes, and the rest of the body.

    Raises `ProtocolError`.
    """
    if len(body) < _LENGTH.size:
        raise ProtocolError("a packet without the description of its sequence")
    end = _LENGTH.size + _LENGTH.unpack_from(body)[0]
    return decode_start(body[_LENGTH.size : end]), body[end:]


class IncomingSequences:
    def __init__(self) -> None:
        self._descriptions: dict[int, Description] = {}
        self._indexes: dict[SequenceKey, int] = {}
        self._unreported: dict[int, None] = {}
        """Indexes with packets since the last acknowledgement."""

    def open(self, start: SequenceStart) -> bool:
        """Add a sequence; return False for a known one. Raises `ProtocolError`."""
        index, description = start.index, start.description
        known = self._descriptions.get(index)
        if known is not None:
            if known != description:
                raise ProtocolError(f"two sequences with the index {index}")
            return False
        if len(self._descriptions) >= MOST_SEQUENCES or description.key in self._indexes:
            raise ProtocolError(f"the sequence {description.key} twice, or one too many")
        self._descriptions[index] = description
        self._indexes[description.key] = index
        return True

    def place(self, packet: Packet) -> Packet:
        """Return a packet with the index of its sequence. The short header has none: it serves a
        peer with one sequence (D35).

        Raises `ProtocolError` for a short header from a peer with none, or with several.
        """
        if packet.flags & EXTENDED:
            return packet
        if len(self._descriptions) != 1:
            raise ProtocolError(f"a short header, and {len(self._descriptions)} sequences")
        return packet._replace(sequence=next(iter(self._descriptions)))

    def find(self, index: int) -> Description | None:
        return self._descriptions.get(index)

    def index_of(self, key: SequenceKey) -> int | None:
        return self._indexes.get(key)

    def record_packet(self, index: int) -> None:
        """Let the next acknowledgement state the place in a sequence."""
        self._unreported[index] = None

    def take_unreported(self) -> list[int]:
        """Return indexes for one acknowledgement."""
        taken = list(self._unreported)[:MOST_ENDS]
        for index in taken:
            del self._unreported[index]
        return taken
