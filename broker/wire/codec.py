"""Typed codec: msgpack values of annotated types.

Types, lengths and bounds are checked when bytes are decoded, but not when a value is constructed. A
message is one byte of kind, then a msgpack array of its fields. Trailing fields with defaults may
be absent: later versions can add some.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any, ClassVar, Final, Generic, TypeAlias, TypeVar

import msgspec

from broker.errors import ProtocolError

#: Unsigned integer of 64 bits.
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
Epoch: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
Offset: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
#: Rank of a security level: low, med, high.
Rank: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2)]
#: (epoch, offset) of a known origin.
WireMark: TypeAlias = tuple[Epoch, Offset]
#: (epoch, id, branch place) of an origin.
WireHistory: TypeAlias = tuple[Epoch, Offset, WireMark]
#: (origin, epoch, offset) of each origin.
WirePosition: TypeAlias = tuple[tuple[str, Epoch, Offset], ...]
#: Stream times: (origin, ms since 1970).
WireTimes: TypeAlias = tuple[tuple[str, Count], ...]
#: Code, message, line and column.
WireErrorFields: TypeAlias = tuple[str, str, Count, Count]
#: A path of 8 units and a name, of 64 characters each, are far from this bound.
MAX_ADDRESS: Final = 1024
Address: TypeAlias = Annotated[str, msgspec.Meta(max_length=MAX_ADDRESS)]
#: Finite number, 0 or more.
Factor: TypeAlias = Annotated[float, msgspec.Meta(ge=0.0, le=sys.float_info.max)]

pack: Final = msgspec.msgpack.Encoder().encode

T = TypeVar("T")


class Schema(Generic[T]):
    """Annotated type of msgpack values and JSON."""

    def __init__(self, type: Any, name: str) -> None:
        """`name` is for errors."""
        self._type = type
        self._name = name
        self._decode = msgspec.msgpack.Decoder(type).decode

    def decode(self, data: bytes | memoryview) -> T:
        """Raises `ProtocolError`."""
        try:
            value: T = self._decode(data)
        except (ValueError, RecursionError) as error:
            raise self._malformed(error) from None
        return value

    def convert(self, plain: object) -> T:
        """Raises `ProtocolError`."""
        try:
            value: T = msgspec.convert(plain, self._type)
        except (ValueError, RecursionError) as error:
            raise self._malformed(error) from None
        return value

    def _malformed(self, error: Exception) -> ProtocolError:
        return ProtocolError(f"malformed {self._name}: {error}")


class Message(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """Base of the messages of a protocol."""

    kind: ClassVar[int]
    """The first byte; unique within a protocol."""
    max_bytes: ClassVar[int] = sys.maxsize
    """A longer message is refused."""

    def __repr__(self) -> str:
        """Omit bytes, which are secrets or long."""
        fields = ((name, getattr(self, name)) for name in self.__struct_fields__)
        texts = (f"{name}={value!r}" for name, value in fields if type(value) is not bytes)
        return f"{type(self).__name__}({', '.join(texts)})"


M = TypeVar("M", bound=Message)
N = TypeVar("N", bound=Message)


class Codec(Generic[M]):
    """The messages of one protocol."""

    def __init__(self, *messages: type[M]) -> None:
        self.by_kind: Final[dict[int, type[M]]] = {}
        self._schemas: dict[int, Schema[M]] = {}
        for message in messages:
            self.register(message)

    def register(self, message: type[N]) -> type[N]:
        """A class decorator."""
        assert message.kind not in self.by_kind, "two messages have the same kind"
        self.by_kind[message.kind] = message  # type: ignore[assignment]
        self._schemas[message.kind] = Schema(message, f"{message.__name__} message")
        return message

    def encode(self, message: M) -> bytes:
        return message.kind.to_bytes() + pack(message)

    def encode_first(self, message: M, count: int) -> bytes:
        names = message.__struct_fields__[:count]
        return message.kind.to_bytes() + pack([getattr(message, name) for name in names])

    def decode(self, data: bytes) -> M:
        """Raises `ProtocolError`."""
        message = self.by_kind.get(data[0]) if data else None
        if message is None:
            kind = data[:1].hex() or "of an empty message"
            raise ProtocolError(f"unknown message kind {kind}")
        if len(data) > message.max_bytes:
            raise ProtocolError(f"{message.__name__} of {len(data)} bytes")
        return self._schemas[message.kind].decode(memoryview(data)[1:])
