"""Messages between a node and the replay process; `docs/replay.md` describes their bytes.

A message is a msgpack array of its kind and its fields in order. Invalid fields raise
`ProtocolError`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final, TypeVar, cast

import attrs
import msgpack

from broker.errors import ProtocolError, WireError
from broker.wire import fields

#: Limit of a message. A request may name thousands of origins, and a page one large event.
MAX_MESSAGE_BYTES: Final = 64 << 20


class Message:
    kind: ClassVar[int]


_by_kind: dict[int, type[Message]] = {}
_M = TypeVar("_M", bound=type[Message])


def _message(kind: int) -> Callable[[_M], _M]:
    def register(cls: _M) -> _M:
        assert kind not in _by_kind
        cls.kind = kind
        _by_kind[kind] = cls
        return cls

    return register


def _chunks(value: Any) -> tuple[bytes, ...]:
    return tuple(map(fields.octets, value))


# ----------------------------------------------------------------------------- from the node


@_message(0x01)
@attrs.frozen
class Replay(Message):
    """Request events. The node chooses an `id` that no other remembered replay has."""

    id: int = attrs.field(converter=fields.count)
    request: Any = attrs.field(converter=fields.plain)
    """See `ReplayRequest.to_wire`."""


@_message(0x02)
@attrs.frozen
class More(Message):
    """Allow more pages to be sent."""

    id: int = attrs.field(converter=fields.count)
    pages: int = attrs.field(converter=fields.count)


@_message(0x03)
@attrs.frozen
class Cancel(Message):
    """Forget a replay in any state. There is no answer."""

    id: int = attrs.field(converter=fields.count)


@_message(0x04)
@attrs.frozen
class Resume(Message):
    """Continue a replay over a new connection, from this event number (the first is 0)."""

    id: int = attrs.field(converter=fields.count)
    first: int = attrs.field(converter=fields.count)


@_message(0x05)
@attrs.frozen
class Status(Message):
    """Request the state of the process; the answer is `State`."""


# ----------------------------------------------------------------------------- to the node


@_message(0x41)
@attrs.frozen
class Accepted(Message):
    """The request is valid, and waits for its job or is in it."""

    id: int = attrs.field(converter=fields.count)


@_message(0x42)
@attrs.frozen
class Progress(Message):
    """Rows that the job has scanned, and their total."""

    id: int = attrs.field(converter=fields.count)
    done: int = attrs.field(converter=fields.count)
    of: int = attrs.field(converter=fields.count)


@_message(0x43)
@attrs.frozen
class Found(Message):
    """The job is over; pages will follow."""

    id: int = attrs.field(converter=fields.count)
    report: Any = attrs.field(converter=fields.plain)
    """See `Report.to_wire`."""


@_message(0x44)
@attrs.frozen
class Page(Message):
    """Events in order, from the event number `first` on."""

    id: int = attrs.field(converter=fields.count)
    first: int = attrs.field(converter=fields.count)
    chunks: tuple[bytes, ...] = attrs.field(converter=_chunks, repr=False)
    """Chunks as in the log (`broker.log.chunk`), one for each run of one origin."""


@_message(0x45)
@attrs.frozen
class Done(Message):
    id: int = attrs.field(converter=fields.count)


@_message(0x46)
@attrs.frozen
class Failed(Message):
    """The replay failed and is forgotten."""

    id: int = attrs.field(converter=fields.count)
    error: WireError = attrs.field(converter=fields.wire_error)


@_message(0x47)
@attrs.frozen
class Notice(Message):
    """A text for the operator."""

    text: str = attrs.field(converter=fields.text)


@_message(0x48)
@attrs.frozen
class State(Message):
    """The state of the process."""

    figures: Any = attrs.field(converter=fields.plain)
    """Names, with numbers or texts."""


def encode(message: Message) -> bytes:
    values = (getattr(message, field.name) for field in attrs.fields(cast(Any, type(message))))
    packed: bytes = msgpack.packb((message.kind, *values))
    return packed


def decode(data: bytes) -> Message:
    """Decode a message. Raises `ProtocolError` if it is invalid."""
    try:
        kind, *values = msgpack.unpackb(data)
        cls = _by_kind.get(kind) if type(kind) is int else None
        if cls is None:
            raise ValueError(f"there is no message {kind!r}")
        return cls(*values)
    except (TypeError, ValueError, msgpack.UnpackException) as error:
        raise ProtocolError(f"invalid replay message: {str(error)[:200]}") from None
