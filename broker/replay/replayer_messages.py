"""The messages between a node and the replay process: `docs/replay.md` has them byte by byte.

A message is a msgpack array of its kind and its fields in their order. Each field is checked on
arrival; what does not fit is a `ProtocolError`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final, TypeVar, cast

import attrs
import msgpack

from broker.errors import ProtocolError, WireError
from broker.wire import fields

#: Bytes of a message; a request may name thousands of origins, a page is not much larger than its
#: bound but for a single event.
MAX_MESSAGE_BYTES: Final = 64 << 20


class Message:
    """Base of all messages; each has its `kind`."""

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
    """Ask for events; `id` is the node's, unlike that of any other replay that is not forgotten."""

    id: int = attrs.field(converter=fields.count)
    request: Any = attrs.field(converter=fields.plain)
    """See `ReplayRequest.to_wire`."""


@_message(0x02)
@attrs.frozen
class More(Message):
    """So many pages more may be sent."""

    id: int = attrs.field(converter=fields.count)
    pages: int = attrs.field(converter=fields.count)


@_message(0x03)
@attrs.frozen
class Cancel(Message):
    """Nobody wants it any more: it is forgotten, finished or not. There is no answer."""

    id: int = attrs.field(converter=fields.count)


@_message(0x04)
@attrs.frozen
class Resume(Message):
    """Over a new connection: send on from the event of this number, the first being 0."""

    id: int = attrs.field(converter=fields.count)
    first: int = attrs.field(converter=fields.count)


@_message(0x05)
@attrs.frozen
class Status(Message):
    """Ask how the process is; the answer is `ReplayState`."""


# ----------------------------------------------------------------------------- to the node


@_message(0x41)
@attrs.frozen
class Accepted(Message):
    """The request is good and waits for its job, or is in it already."""

    id: int = attrs.field(converter=fields.count)


@_message(0x42)
@attrs.frozen
class Progress(Message):
    """Of the rows that its job looks at, so many have been."""

    id: int = attrs.field(converter=fields.count)
    done: int = attrs.field(converter=fields.count)
    of: int = attrs.field(converter=fields.count)


@_message(0x43)
@attrs.frozen
class Found(Message):
    """The job is over, and its events are ready to be sent."""

    id: int = attrs.field(converter=fields.count)
    report: Any = attrs.field(converter=fields.plain)
    """See `Report.to_wire`."""


@_message(0x44)
@attrs.frozen
class Page(Message):
    """Events in their order, from the number `first` on."""

    id: int = attrs.field(converter=fields.count)
    first: int = attrs.field(converter=fields.count)
    chunks: tuple[bytes, ...] = attrs.field(converter=_chunks, repr=False)
    """As the log has them (`broker.log.chunks`): one for each run of one origin's events."""


@_message(0x45)
@attrs.frozen
class Done(Message):
    """All events have been sent."""

    id: int = attrs.field(converter=fields.count)


@_message(0x46)
@attrs.frozen
class Failed(Message):
    """The replay can not be had, or not go on; it is forgotten."""

    id: int = attrs.field(converter=fields.count)
    error: WireError = attrs.field(converter=fields.wire_error)


@_message(0x47)
@attrs.frozen
class Notice(Message):
    """For people."""

    text: str = attrs.field(converter=fields.text)


@_message(0x48)
@attrs.frozen
class State(Message):
    """How the process is."""

    figures: Any = attrs.field(converter=fields.plain)
    """Names and numbers or texts."""


def encode(message: Message) -> bytes:
    """The message as bytes, without their length."""
    values = (getattr(message, field.name) for field in attrs.fields(cast(Any, type(message))))
    packed: bytes = msgpack.packb((message.kind, *values))
    return packed


def decode(data: bytes) -> Message:
    """The message that `encode` wrote; `ProtocolError` if it is none."""
    try:
        kind, *values = msgpack.unpackb(data)
        cls = _by_kind.get(kind) if type(kind) is int else None
        if cls is None:
            raise ValueError(f"there is no message {kind!r}")
        return cls(*values)
    except (TypeError, ValueError, msgpack.UnpackException) as error:
        raise ProtocolError(f"this is no message of a replay: {str(error)[:200]}") from None
