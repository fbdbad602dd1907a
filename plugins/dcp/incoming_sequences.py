"""The sequences of a parent, by their indexes on its connection."""

from __future__ import annotations

import struct
from typing import Final

from broker.errors import ProtocolError
from plugins.dcp.control import MOST_SEQUENCES, SequenceStart, decode_start
from plugins.dcp.event_range import Description, SequenceKey
from plugins.dcp.feedback import MOST_ENDS

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
