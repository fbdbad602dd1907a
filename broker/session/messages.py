"""The messages of a session, as both ends use them.

A message is one byte of kind and a msgpack array of the class's fields in their order; batches of
events follow their own layout (`broker.session.batches`). Every field is checked on arrival: what
does not fit is a `ProtocolError`, never an exception of another kind. `docs/protocols/session.md`
shows the bytes and who may send what when.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeAlias, TypeVar, cast

import attrs
import msgpack

from broker.errors import ProtocolError, WireError
from broker.event.place import Mark

#: Position as it travels: a list of (origin, epoch, offset).
WirePosition: TypeAlias = tuple[tuple[str, int, int], ...]

PROTOCOL_VERSIONS = (1,)
#: What a node may send in DELIVER messages, in bytes, before the client's first `Credit`.
INITIAL_CREDIT = 1 << 20
MAGIC = "xmlbroker"
#: No control message is longer, in bytes; a query alone may be `query.max_length`.
MAX_CONTROL = 256 * 1024


class Message:
    """Base of all messages; each has its `kind` byte."""

    kind: ClassVar[int]


_by_kind: dict[int, type[Message]] = {}
_M = TypeVar("_M", bound=type[Message])


def _message(kind: int) -> Callable[[_M], _M]:
    def register(cls: _M) -> _M:
        cls.kind = kind
        assert kind not in _by_kind
        _by_kind[kind] = cls
        return cls

    return register


def _wire_error(value: Any) -> WireError:
    code, text, line, column = value
    if not (isinstance(code, str) and isinstance(text, str)):
        raise TypeError("an error's code and text are text")
    return (code, text, _count(line), _count(column))


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 64:
        raise TypeError("not a count")
    return value


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError("not text")
    return value


def _bytes(value: Any) -> bytes:
    if type(value) is not bytes:
        raise TypeError("not bytes")
    return value


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise TypeError("not a truth value")
    return value


def _position(value: Any) -> WirePosition:
    return tuple((_text(origin), _count(epoch), _count(offset)) for origin, epoch, offset in value)


def _optional_position(value: Any) -> WirePosition | None:
    return None if value is None else _position(value)


def _texts(value: Any) -> Mapping[str, str]:
    return {_text(key): _text(item) for key, item in value.items()}


def _text_list(value: Any) -> tuple[str, ...]:
    return tuple(_text(item) for item in value)


def _counts(value: Any) -> tuple[int, ...]:
    return tuple(_count(item) for item in value)


def _mark(value: Any) -> tuple[int, int]:
    epoch, offset = value
    return (_count(epoch), _count(offset))


def _refusals(value: Any) -> tuple[tuple[int, WireError], ...]:
    return tuple((_count(index), _wire_error(error)) for index, error in value)


def _breaks(value: Any) -> tuple[tuple[int, Mark], ...]:
    return tuple(
        (_count(index), (_count(epoch), _count(offset))) for index, (epoch, offset) in value
    )


def _positions(value: Any) -> tuple[tuple[int, WirePosition], ...]:
    return tuple((_count(number), _position(position)) for number, position in value)


def _plain(value: Any) -> Any:
    """Anything that msgpack carries: only for reports that people and tools read."""
    return value


# ----------------------------------------------------------------------------- greeting


@_message(0x01)
@attrs.frozen
class Hello(Message):
    """Client: the first packet of every connection, before the stack is attached."""

    magic: str = attrs.field(converter=_text)
    versions: tuple[int, ...] = attrs.field(converter=_counts)
    client_id: str = attrs.field(converter=_text)
    incarnation: int = attrs.field(converter=_count)
    token: bytes = attrs.field(converter=_bytes)
    """16 random bytes that this process keeps for this session: who has them may resume it."""
    account: str = attrs.field(converter=_text)
    secret: str = attrs.field(converter=_text, repr=False)


@_message(0x02)
@attrs.frozen
class Welcome(Message):
    """Node: the connection is accepted; the session's stack speaks from the next packet on."""

    version: int = attrs.field(converter=_count)
    node: str = attrs.field(converter=_text)
    origin: str = attrs.field(converter=_text)
    max_event_bytes: int = attrs.field(converter=_count)
    max_frame_bytes: int = attrs.field(converter=_count)


@_message(0x03)
@attrs.frozen
class Refuse(Message):
    """Node: the connection is refused, or the session ended, and why. The node then closes."""

    error: WireError = attrs.field(converter=_wire_error)


@_message(0x04)
@attrs.frozen
class Goodbye(Message):
    """Client: the session is over for good; the node need not keep it."""


# ----------------------------------------------------------------------------- publishing


@_message(0x11)
@attrs.frozen
class Published(Message):
    """Node: what became of a batch. Every event that is not refused is durable.

    `first` is the place of the first event that was new; the others follow it without a hole, but
    where others' events came in between: (index, mark) in `later` says where a new event lies that
    does not follow the new one before it, and those behind it follow that.
    `duplicates` are the indices of events that had been accepted before.
    """

    batch: int = attrs.field(converter=_count)
    first: WirePosition = attrs.field(converter=_position)
    accepted: int = attrs.field(converter=_count)
    duplicates: tuple[int, ...] = attrs.field(converter=_counts)
    refused: tuple[tuple[int, WireError], ...] = attrs.field(converter=_refusals)
    later: tuple[tuple[int, Mark], ...] = attrs.field(converter=_breaks, default=())


@_message(0x12)
@attrs.frozen
class NotPublished(Message):
    """Node: not all of this batch was stored, and nothing of a later one. Send all again from it.

    What of it was stored is a duplicate then.

    Until `batch` comes again the node answers every later batch with this too, so that an event
    never overtakes one of the same publisher.
    """

    batch: int = attrs.field(converter=_count)
    retry_ms: int = attrs.field(converter=_count)
    error: WireError = attrs.field(converter=_wire_error)


# ----------------------------------------------------------------------------- subscribing


@_message(0x20)
@attrs.frozen
class Subscribe(Message):
    """Client: deliver what matches. `number` is the client's own for it, free in this session."""

    number: int = attrs.field(converter=_count)
    pattern: str = attrs.field(converter=_text)
    query: str = attrs.field(converter=_text)
    namespaces: Mapping[str, str] = attrs.field(converter=_texts)
    durable: str = attrs.field(converter=_text)
    """Name of a durable subscription, or empty."""
    start: str = attrs.field(converter=_text)
    """`new`, `all`, `position`, `time`, or `stored` (where a durable one was left; else new)."""
    position: WirePosition = attrs.field(converter=_position)
    time: int = attrs.field(converter=_count)
    """For `time`: ms since 1970."""


@_message(0x21)
@attrs.frozen
class Subscribed(Message):
    """Node: the subscription is accepted. `warnings` are for the person who wrote the query."""

    number: int = attrs.field(converter=_count)
    position: WirePosition | None = attrs.field(converter=_optional_position)
    """Where a durable one was left; None where nothing was stored."""
    warnings: tuple[str, ...] = attrs.field(converter=_text_list)


@_message(0x22)
@attrs.frozen
class Flowing(Message):
    """Node: after `cut` nothing that matches is missed."""

    number: int = attrs.field(converter=_count)
    cut: WirePosition = attrs.field(converter=_position)


@_message(0x23)
@attrs.frozen
class Unsubscribe(Message):
    """Client: deliver no more; `forget` also drops what was stored of a durable one."""

    number: int = attrs.field(converter=_count)
    forget: bool = attrs.field(converter=_flag)


@_message(0x24)
@attrs.frozen
class Ended(Message):
    """Node: the subscription is over: refused, cancelled by the node, or as the client asked.

    The error's code is empty where the client asked.
    """

    number: int = attrs.field(converter=_count)
    error: WireError = attrs.field(converter=_wire_error)


@_message(0x25)
@attrs.frozen
class Acknowledge(Message):
    """Client: these durable subscriptions are processed up to these positions."""

    positions: tuple[tuple[int, WirePosition], ...] = attrs.field(converter=_positions)


@_message(0x26)
@attrs.frozen
class Progress(Message):
    """Node: up to these positions nothing is left to deliver, matched or not."""

    positions: tuple[tuple[int, WirePosition], ...] = attrs.field(converter=_positions)


@_message(0x27)
@attrs.frozen
class Gap(Message):
    """Node: events that may have matched are gone for this subscription.

    `reason` is `retention` (the log no longer holds them; `count` offsets of `origin` are gone,
    matching or not) or `slow` (a transient subscriber's queue was full; exactly `count` matching
    events were dropped). Bounds are inclusive marks.
    """

    number: int = attrs.field(converter=_count)
    origin: str = attrs.field(converter=_text)
    first: tuple[int, int] = attrs.field(converter=_mark)
    last: tuple[int, int] = attrs.field(converter=_mark)
    count: int = attrs.field(converter=_count)
    reason: str = attrs.field(converter=_text)


@_message(0x29)
@attrs.frozen
class Credit(Message):
    """Client: so many bytes of DELIVER messages may be sent in this session altogether.

    Beside p2p's credit, which returns as soon as a message has arrived: so deliveries that the
    user has not looked at never keep receipts and answers from coming.
    """

    limit: int = attrs.field(converter=_count)


@_message(0x2A)
@attrs.frozen
class TypeChanged(Message):
    """Node: a newer version of an event type turned up, and touches this subscription's query.

    Paths are label paths such as `/flight/leg/@status`. Each list is cut to what a person reads;
    what the query reads stands first.
    """

    number: int = attrs.field(converter=_count)
    type: str = attrs.field(converter=_text)
    old: str = attrs.field(converter=_text)
    """The newest version before."""
    new: str = attrs.field(converter=_text)
    effect: str = attrs.field(converter=_text)
    """`can-not-match-any-more`, `can-match-now`, or `reads-what-changed`."""
    reason: str = attrs.field(converter=_text)
    """For the first two: why the query can match no event of the one version."""
    paths: tuple[str, ...] = attrs.field(converter=_text_list)
    """What the query reads of all that came, went or changed."""
    came: tuple[str, ...] = attrs.field(converter=_text_list)
    went: tuple[str, ...] = attrs.field(converter=_text_list)
    changed: tuple[str, ...] = attrs.field(converter=_text_list)
    """Attributes with other values or another default: path, colon, how."""
    left_out: int = attrs.field(converter=_count)
    """How many entries the four lists lack altogether."""


# ----------------------------------------------------------------------------- asking


@_message(0x30)
@attrs.frozen
class Ask(Message):
    """Client: a question to the node (`status`, `dtd-list`, `dtd-show`, `explain`)."""

    request: int = attrs.field(converter=_count)
    what: str = attrs.field(converter=_text)
    arguments: Mapping[str, str] = attrs.field(converter=_texts)
    document: bytes = attrs.field(default=b"", converter=_bytes, repr=False)
    """The event that the question is about, or empty; it may be as large as a frame."""


@_message(0x31)
@attrs.frozen
class Answer(Message):
    """Node: the answer; an error where `error`'s code is not empty."""

    request: int = attrs.field(converter=_count)
    error: WireError = attrs.field(converter=_wire_error)
    content: Any = attrs.field(converter=_plain)


#: Says that there is no error, where a message has room for one.
NO_ERROR: WireError = ("", "", 0, 0)

#: Kinds of the messages that carry events: `broker.session.batches`.
PUBLISH = 0x10
DELIVER = 0x28


def encode(message: Message) -> bytes:
    """The bytes of a control message."""
    fields = attrs.astuple(cast(attrs.AttrsInstance, message), recurse=False)
    packed: bytes = msgpack.packb(fields)
    return bytes([message.kind]) + packed


def decode(data: bytes) -> Message:
    """The control message that `data` holds; `ProtocolError` if it is none."""
    cls = _by_kind.get(data[0]) if data else None
    if cls is None:
        raise ProtocolError(f"unknown message kind {data[:1].hex() or 'of an empty message'}")
    if len(data) > MAX_CONTROL and cls not in (Answer, Published, Ask):
        raise ProtocolError(f"{cls.__name__} of {len(data)} bytes")
    try:
        fields = msgpack.unpackb(memoryview(data)[1:], use_list=False, strict_map_key=True)
        message = cls(*fields)
        if isinstance(message, Ask) and len(data) - len(message.document) > MAX_CONTROL:
            raise ProtocolError(f"Ask of {len(data)} bytes")
        return message
    except (ValueError, TypeError, AttributeError, msgpack.UnpackException, RecursionError):
        raise ProtocolError(f"malformed {cls.__name__} message") from None
