"""A typed codec for control messages: one byte of kind, then a msgpack array of the fields.

A message is a class with annotated fields, in the order of the array. The annotations are the
schema: types, lengths and bounds are checked when bytes are decoded. Trailing fields with defaults
may be absent, so a later version of a protocol can add fields at the end.
"""

from __future__ import annotations

import sys
from typing import Annotated, ClassVar, Final, Generic, TypeAlias, TypeVar

import msgspec

from broker.errors import ProtocolError

#: An unsigned integer of 64 bits.
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
Epoch: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
Offset: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
#: A place of a known origin: (epoch, offset).
WireMark: TypeAlias = tuple[Epoch, Offset]
#: A position: (origin, epoch, offset) of each origin.
WirePosition: TypeAlias = tuple[tuple[str, Epoch, Offset], ...]
#: Stream times: (origin, ms since 1970).
WireTimes: TypeAlias = tuple[tuple[str, Count], ...]
#: Code, message, line and column of an error.
WireErrorFields: TypeAlias = tuple[str, str, Count, Count]
#: A path of 8 units and a name, of 64 characters each, are far from this bound.
MAX_ADDRESS: Final = 1024
Address: TypeAlias = Annotated[str, msgspec.Meta(max_length=MAX_ADDRESS)]
#: A finite number, 0 or more.
Factor: TypeAlias = Annotated[float, msgspec.Meta(ge=0.0, le=sys.float_info.max)]

_pack = msgspec.msgpack.Encoder().encode


class Message(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """Base of the messages of a protocol."""

    kind: ClassVar[int]
    """The first byte; unique within a protocol."""


M = TypeVar("M", bound=Message)


class Codec(Generic[M]):
    """The messages of one protocol."""

    def __init__(self, *messages: type[M]) -> None:
        self.by_kind: Final = {message.kind: message for message in messages}
        assert len(self.by_kind) == len(messages), "two messages have the same kind"
        self._prefixes = {kind: bytes([kind]) for kind in self.by_kind}
        self._decoders = {
            kind: msgspec.msgpack.Decoder(message) for kind, message in self.by_kind.items()
        }

    def encode(self, message: M) -> bytes:
        """Return the bytes of a message."""
        return self._prefixes[message.kind] + _pack(message)

    def encode_first(self, message: M, count: int) -> bytes:
        """Return the bytes of a message with its first `count` fields only."""
        names = message.__struct_fields__[:count]
        return self._prefixes[message.kind] + _pack([getattr(message, name) for name in names])

    def decode(self, data: bytes) -> M:
        """Return the message in `data`. Raises `ProtocolError`."""
        decoder = self._decoders.get(data[0]) if data else None
        if decoder is None:
            kind = data[:1].hex() or "of an empty message"
            raise ProtocolError(f"unknown message kind {kind}")
        try:
            return decoder.decode(memoryview(data)[1:])
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            name = self.by_kind[data[0]].__name__
            raise ProtocolError(f"malformed {name} message: {error}") from None
