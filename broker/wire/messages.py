"""The messages of a session, as both ends use them.

A message is one byte of kind and a msgpack array of the class's fields in their order; batches of
events follow their own layout (`broker.wire.batches`). Every field is checked on arrival: what
does not fit is a `ProtocolError`, never an exception of another kind. `docs/protocols/session.md`
shows the bytes and who may send what when.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, ClassVar, Final, TypeVar, cast

import attrs
import msgpack

from broker.errors import ProtocolError, WireError
from broker.event.place import Mark
from broker.wire import fields
from broker.wire.fields import WirePosition, WireTimes

#: Version 2 adds stream times: a field of `Subscribe` and one of `Progress`.
PROTOCOL_VERSIONS = (1, 2)
#: What a node may send in DELIVER messages, in bytes, before the client's first `Credit`.
INITIAL_CREDIT = 1 << 20
MAGIC = "xmlbroker"
#: No control message is longer, in bytes; a query alone may be `query.max_length`.
MAX_CONTROL = 256 * 1024
_SINCE_2: Final = {"since": 2}


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


# ----------------------------------------------------------------------------- greeting


@_message(0x01)
@attrs.frozen
class Hello(Message):
    """Client: the first packet of every connection, before the stack is attached."""

    magic: str = attrs.field(converter=fields.text)
    versions: tuple[int, ...] = attrs.field(converter=fields.counts)
    client_id: str = attrs.field(converter=fields.text)
    incarnation: int = attrs.field(converter=fields.count)
    token: bytes = attrs.field(converter=fields.octets)
    """16 random bytes that this process keeps for this session: who has them may resume it."""
    account: str = attrs.field(converter=fields.text)
    secret: str = attrs.field(converter=fields.text, repr=False)


@_message(0x02)
@attrs.frozen
class Welcome(Message):
    """Node: the connection is accepted; the session's stack speaks from the next packet on."""

    version: int = attrs.field(converter=fields.count)
    node: str = attrs.field(converter=fields.text)
    origin: str = attrs.field(converter=fields.text)
    max_event_bytes: int = attrs.field(converter=fields.count)
    max_frame_bytes: int = attrs.field(converter=fields.count)
    address: str = attrs.field(converter=fields.address)
    """Where the node is (cluster path and name); the name alone for one without a network."""


@_message(0x03)
@attrs.frozen
class Refuse(Message):
    """Node: the connection is refused, or the session ended, and why. The node then closes."""

    error: WireError = attrs.field(converter=fields.wire_error)


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

    batch: int = attrs.field(converter=fields.count)
    first: WirePosition = attrs.field(converter=fields.position)
    accepted: int = attrs.field(converter=fields.count)
    duplicates: tuple[int, ...] = attrs.field(converter=fields.counts)
    refused: tuple[tuple[int, WireError], ...] = attrs.field(converter=fields.refusals)
    later: tuple[tuple[int, Mark], ...] = attrs.field(converter=fields.breaks, default=())


@_message(0x12)
@attrs.frozen
class NotPublished(Message):
    """Node: not all of this batch was stored, and nothing of a later one. Send all again from it.

    What of it was stored is a duplicate then.

    Until `batch` comes again the node answers every later batch with this too, so that an event
    never overtakes one of the same publisher.
    """

    batch: int = attrs.field(converter=fields.count)
    retry_ms: int = attrs.field(converter=fields.count)
    error: WireError = attrs.field(converter=fields.wire_error)


# ----------------------------------------------------------------------------- subscribing


@_message(0x20)
@attrs.frozen
class Subscribe(Message):
    """Client: deliver what matches. `number` is the client's own for it, free in this session."""

    number: int = attrs.field(converter=fields.count)
    pattern: str = attrs.field(converter=fields.text)
    query: str = attrs.field(converter=fields.text)
    namespaces: Mapping[str, str] = attrs.field(converter=fields.texts)
    durable: str = attrs.field(converter=fields.text)
    """Name of a durable subscription, or empty."""
    start: str = attrs.field(converter=fields.text)
    """`new`, `all`, `position`, `time`, `last`, or `stored` (where a durable one was left, or
    `position` if that is further; else new)."""
    position: WirePosition = attrs.field(converter=fields.position)
    """For `position` and `stored`: how far the client knows that it has got."""
    time: int = attrs.field(converter=fields.count)
    """For `time`: ms since 1970."""
    former: str = attrs.field(converter=fields.address, default="")
    """Address of the node where it was last, as that node's `Welcome` said; empty: not known."""
    until_ms: int = attrs.field(converter=fields.count, default=0)
    """It ends before the first event of this time of arrival or later; 0: no such end."""
    until: WirePosition = attrs.field(converter=fields.position, default=())
    """It ends when all up to this position was delivered; empty: no such end."""
    last: int = attrs.field(converter=fields.count, default=0)
    """For `last`: so many of the newest that match."""
    pace: float = attrs.field(converter=fields.factor, default=0.0)
    """Factor of the pace at which recovered events arrived at first; 0: as fast as possible."""
    rate: int = attrs.field(converter=fields.count, default=0)
    """Recovered events a second at most; 0: no bound."""
    processed: WirePosition | None = attrs.field(converter=fields.optional_position, default=None)
    """How far a durable one that goes on at `position` was processed: what is stored of it."""
    times: bool = attrs.field(converter=fields.flag, default=False, metadata=_SINCE_2)
    """True if `Progress` is to carry stream times."""


@_message(0x21)
@attrs.frozen
class Subscribed(Message):
    """Node: the subscription is accepted. `warnings` are for the person who wrote the query."""

    number: int = attrs.field(converter=fields.count)
    position: WirePosition | None = attrs.field(converter=fields.optional_position)
    """Where a durable one was left; None where nothing was stored."""
    warnings: tuple[str, ...] = attrs.field(converter=fields.text_list)


@_message(0x22)
@attrs.frozen
class Flowing(Message):
    """Node: after `cut` nothing that matches is missed."""

    number: int = attrs.field(converter=fields.count)
    cut: WirePosition = attrs.field(converter=fields.position)


@_message(0x23)
@attrs.frozen
class Unsubscribe(Message):
    """Client: deliver no more; `forget` also drops what was stored of a durable one."""

    number: int = attrs.field(converter=fields.count)
    forget: bool = attrs.field(converter=fields.flag)


@_message(0x24)
@attrs.frozen
class Ended(Message):
    """Node: the subscription is over: refused, cancelled by the node, or as the client asked.

    The error's code is empty where the client asked.
    """

    number: int = attrs.field(converter=fields.count)
    error: WireError = attrs.field(converter=fields.wire_error)


@_message(0x25)
@attrs.frozen
class Acknowledge(Message):
    """Client: these durable subscriptions are processed up to these positions."""

    positions: tuple[tuple[int, WirePosition], ...] = attrs.field(converter=fields.positions)


@_message(0x26)
@attrs.frozen
class Progress(Message):
    """Node: up to these positions nothing is left to deliver, matched or not."""

    positions: tuple[tuple[int, WirePosition], ...] = attrs.field(converter=fields.positions)
    times: tuple[tuple[int, WireTimes], ...] = attrs.field(
        converter=fields.stream_times, default=(), metadata=_SINCE_2
    )
    """Stream times of every origin, for subscriptions that asked: matching events that are still
    to come were committed after that time, in ms since 1970. 0: the time is not known."""


@_message(0x27)
@attrs.frozen
class Gap(Message):
    """Node: events that may have matched are gone for this subscription.

    `reason` is `retention` (no log holds them any more; `count` offsets of `origin` are gone,
    matching or not), `lost` (what was missed elsewhere is nowhere to be found), `damaged` (the log
    is damaged there, and no other source has the events) or `slow` (a transient subscriber's queue
    was full; exactly `count` matching events were dropped). Bounds are inclusive marks.
    """

    number: int = attrs.field(converter=fields.count)
    origin: str = attrs.field(converter=fields.text)
    first: tuple[int, int] = attrs.field(converter=fields.mark)
    last: tuple[int, int] = attrs.field(converter=fields.mark)
    count: int = attrs.field(converter=fields.count)
    reason: str = attrs.field(converter=fields.text)


@_message(0x29)
@attrs.frozen
class Credit(Message):
    """Client: so many bytes of DELIVER messages may be sent in this session altogether.

    Beside p2p's credit, which returns as soon as a message has arrived: so deliveries that the
    user has not looked at never keep receipts and answers from coming.
    """

    limit: int = attrs.field(converter=fields.count)


@_message(0x2A)
@attrs.frozen
class TypeChanged(Message):
    """Node: a newer version of an event type turned up, and touches this subscription's query.

    Paths are label paths such as `/flight/leg/@status`. Each list is cut to what a person reads;
    what the query reads stands first.
    """

    number: int = attrs.field(converter=fields.count)
    type: str = attrs.field(converter=fields.text)
    old: str = attrs.field(converter=fields.text)
    """The newest version before."""
    new: str = attrs.field(converter=fields.text)
    effect: str = attrs.field(converter=fields.text)
    """`can-not-match-any-more`, `can-match-now`, or `reads-what-changed`."""
    reason: str = attrs.field(converter=fields.text)
    """For the first two: why the query can match no event of the one version."""
    paths: tuple[str, ...] = attrs.field(converter=fields.text_list)
    """What the query reads of all that came, went or changed."""
    came: tuple[str, ...] = attrs.field(converter=fields.text_list)
    went: tuple[str, ...] = attrs.field(converter=fields.text_list)
    changed: tuple[str, ...] = attrs.field(converter=fields.text_list)
    """Attributes with other values or another default: path, colon, how."""
    left_out: int = attrs.field(converter=fields.count)
    """How many entries the four lists lack altogether."""


# ----------------------------------------------------------------------------- asking


@_message(0x30)
@attrs.frozen
class Ask(Message):
    """Client: a question to the node (`status`, `dtd-list`, `dtd-show`, `explain`)."""

    request: int = attrs.field(converter=fields.count)
    what: str = attrs.field(converter=fields.text)
    arguments: Mapping[str, str] = attrs.field(converter=fields.texts)
    document: bytes = attrs.field(default=b"", converter=fields.octets, repr=False)
    """The event that the question is about, or empty; it may be as large as a frame."""


@_message(0x31)
@attrs.frozen
class Answer(Message):
    """Node: the answer; an error where `error`'s code is not empty."""

    request: int = attrs.field(converter=fields.count)
    error: WireError = attrs.field(converter=fields.wire_error)
    content: Any = attrs.field(converter=fields.plain)


#: Says that there is no error, where a message has room for one.
NO_ERROR: WireError = ("", "", 0, 0)

#: Kinds of the messages that carry events: `broker.wire.batches`.
PUBLISH = 0x10
DELIVER = 0x28


def encode(message: Message, version: int = PROTOCOL_VERSIONS[-1]) -> bytes:
    """Return the bytes of a control message, with the fields that `version` has."""
    values = attrs.astuple(cast(attrs.AttrsInstance, message), recurse=False)
    if version < PROTOCOL_VERSIONS[-1]:
        values = values[: _field_counts(version)[message.kind]]
    packed: bytes = msgpack.packb(values)
    return bytes([message.kind]) + packed


@cache
def _field_counts(version: int) -> Mapping[int, int]:
    """Return by kind the number of fields that a message has in `version`."""
    return {
        kind: sum(
            each.metadata.get("since", 1) <= version
            for each in attrs.fields(cast("type[attrs.AttrsInstance]", cls))
        )
        for kind, cls in _by_kind.items()
    }


_OTHER_NODES = "other nodes connect there: clients take one of the node's listen.endpoints"
#: The first message of either side of a greeting between nodes, which is of another protocol.
_OF_NODES: Final = {
    b"\x40": "a node greets where clients connect: it needs the port of this node's network.listen",
    b"\x42": _OTHER_NODES,
    b"\x43": _OTHER_NODES,
}


def decode(data: bytes) -> Message:
    """The control message that `data` holds; `ProtocolError` if it is none."""
    cls = _by_kind.get(data[0]) if data else None
    if cls is None:
        kind = f"unknown message kind {data[:1].hex() or 'of an empty message'}"
        raise ProtocolError(_OF_NODES.get(data[:1], kind))
    if len(data) > MAX_CONTROL and cls not in (Answer, Published, Ask):
        raise ProtocolError(f"{cls.__name__} of {len(data)} bytes")
    try:
        values = msgpack.unpackb(memoryview(data)[1:], use_list=False, strict_map_key=True)
        message = cls(*values)
        if isinstance(message, Ask) and len(data) - len(message.document) > MAX_CONTROL:
            raise ProtocolError(f"Ask of {len(data)} bytes")
        return message
    except (ValueError, TypeError, AttributeError, msgpack.UnpackException, RecursionError):
        raise ProtocolError(f"malformed {cls.__name__} message") from None
