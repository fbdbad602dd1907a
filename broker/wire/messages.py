"""The messages of a session, as both ends use them.

`broker.wire.codec` has their layout; batches of events have one of their own
(`broker.wire.event_batch`). `docs/protocols/session.md` shows the bytes, and when either end may send
each message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from broker.errors import ProtocolError, WireError
from broker.wire.codec import (
    Address,
    Codec,
    Count,
    Factor,
    Message,
    WireErrorFields,
    WireMark,
    WirePosition,
    WireTimes,
)

#: Version 2 adds stream times: a field of `Subscribe` and one of `Progress`.
PROTOCOL_VERSIONS = (1, 2)
#: What a node may send in DELIVER messages, in bytes, before the client's first `Credit`.
INITIAL_CREDIT = 1 << 20
MAGIC = "xmlbroker"
#: No control message is longer, in bytes; a query alone may be `query.max_length`.
MAX_CONTROL = 256 * 1024

# ----------------------------------------------------------------------------- greeting


class Hello(Message, frozen=True):
    """Client: the first packet of every connection, before the stack is attached."""

    kind = 0x01

    magic: str
    versions: tuple[Count, ...]
    client_id: str
    incarnation: Count
    token: bytes
    """16 random bytes that this process keeps for this session: who has them may resume it."""
    account: str
    secret: str

    def __repr__(self) -> str:
        return f"Hello({self.client_id!r}, {self.incarnation}, {self.account!r})"


class Welcome(Message, frozen=True):
    """Node: the connection is accepted; the session's stack speaks from the next packet on."""

    kind = 0x02

    version: Count
    node: str
    origin: str
    max_event_bytes: Count
    max_frame_bytes: Count
    address: Address
    """Where the node is (cluster path and name); the name alone for one without a network."""


class Refuse(Message, frozen=True):
    """Node: the connection is refused, or the session ended, and why. The node then closes."""

    kind = 0x03

    error: WireErrorFields


class Goodbye(Message, frozen=True):
    """Client: the session is over for good; the node need not keep it."""

    kind = 0x04


# ----------------------------------------------------------------------------- publishing


class Published(Message, frozen=True):
    """Node: what became of a batch. Every event that is not refused is durable.

    `first` is the place of the first event that was new; the others follow it without a hole, but
    where others' events came in between: (index, mark) in `later` says where a new event lies that
    does not follow the new one before it, and those behind it follow that.
    `duplicates` are the indices of events that had been accepted before.
    """

    kind = 0x11

    batch: Count
    first: WirePosition
    accepted: Count
    duplicates: tuple[Count, ...]
    refused: tuple[tuple[Count, WireErrorFields], ...]
    later: tuple[tuple[Count, WireMark], ...] = ()


class NotPublished(Message, frozen=True):
    """Node: not all of this batch was stored, and nothing of a later one. Send all again from it.

    What of it was stored is a duplicate then.

    Until `batch` comes again the node answers every later batch with this too, so that an event
    never overtakes one of the same publisher.
    """

    kind = 0x12

    batch: Count
    retry_ms: Count
    error: WireErrorFields


# ----------------------------------------------------------------------------- subscribing


class Subscribe(Message, frozen=True):
    """Client: deliver what matches. `number` is the client's own for it, free in this session."""

    kind = 0x20

    number: Count
    pattern: str
    query: str
    namespaces: Mapping[str, str]
    durable: str
    """Name of a durable subscription, or empty."""
    start: str
    """`new`, `all`, `position`, `time`, `last`, or `stored` (where a durable one was left, or
    `position` if that is further; else new)."""
    position: WirePosition
    """For `position` and `stored`: how far the client knows that it has got."""
    time: Count
    """For `time`: ms since 1970."""
    previous_address: Address = ""
    """Address of the node where it was last, as that node's `Welcome` said; empty: not known."""
    until_ms: Count = 0
    """It ends before the first event of this time of arrival or later; 0: no such end."""
    until: WirePosition = ()
    """It ends when all up to this position was delivered; empty: no such end."""
    last: Count = 0
    """For `last`: so many of the newest that match."""
    pace: Factor = 0.0
    """Factor of the pace at which recovered events arrived at first; 0: as fast as possible."""
    rate: Count = 0
    """Recovered events a second at most; 0: no bound."""
    processed: WirePosition | None = None
    """How far a durable one that goes on at `position` was processed: what is stored of it."""
    times: bool = False
    """True if `Progress` is to carry stream times."""


class Subscribed(Message, frozen=True):
    """Node: the subscription is accepted. `warnings` are for the person who wrote the query."""

    kind = 0x21

    number: Count
    position: WirePosition | None
    """Where a durable one was left; None where nothing was stored."""
    warnings: tuple[str, ...]


class Flowing(Message, frozen=True):
    """Node: after `cut` nothing that matches is missed."""

    kind = 0x22

    number: Count
    cut: WirePosition


class Unsubscribe(Message, frozen=True):
    """Client: deliver no more; `forget` also drops what was stored of a durable one."""

    kind = 0x23

    number: Count
    forget: bool


class Ended(Message, frozen=True):
    """Node: the subscription is over: refused, cancelled by the node, or as the client asked.

    The error's code is empty where the client asked.
    """

    kind = 0x24

    number: Count
    error: WireErrorFields


class Acknowledge(Message, frozen=True):
    """Client: these durable subscriptions are processed up to these positions."""

    kind = 0x25

    positions: tuple[tuple[Count, WirePosition], ...]


class Progress(Message, frozen=True):
    """Node: up to these positions nothing is left to deliver, matched or not."""

    kind = 0x26

    positions: tuple[tuple[Count, WirePosition], ...]
    times: tuple[tuple[Count, WireTimes], ...] = ()
    """Stream times of every origin, for subscriptions that asked: matching events that are still
    to come were committed after that time, in ms since 1970. 0: the time is not known."""


class Gap(Message, frozen=True):
    """Node: events that may have matched are gone for this subscription.

    `reason` is `retention` (no log holds them any more; `count` offsets of `origin` are gone,
    matching or not), `lost` (what was missed elsewhere is nowhere to be found), `damaged` (the log
    is damaged there, and no other source has the events) or `slow` (a transient subscriber's queue
    was full; exactly `count` matching events were dropped). Bounds are inclusive marks.
    """

    kind = 0x27

    number: Count
    origin: str
    first: WireMark
    last: WireMark
    count: Count
    reason: str


class Credit(Message, frozen=True):
    """Client: so many bytes of DELIVER messages may be sent in this session altogether.

    Beside p2p's credit, which returns as soon as a message has arrived: so deliveries that the
    user has not looked at never keep receipts and answers from coming.
    """

    kind = 0x29

    limit: Count


class TypeChanged(Message, frozen=True):
    """Node: a newer version of an event type turned up, and touches this subscription's query.

    Paths are label paths such as `/flight/leg/@status`. Each list is cut to what a person reads;
    what the query reads stands first.
    """

    kind = 0x2A

    number: Count
    type: str
    old: str
    """The newest version before."""
    new: str
    effect: str
    """`can-not-match-any-more`, `can-match-now`, or `reads-what-changed`."""
    reason: str
    """For the first two: why the query can match no event of the one version."""
    paths: tuple[str, ...]
    """What the query reads of all that came, went or changed."""
    came: tuple[str, ...]
    went: tuple[str, ...]
    changed: tuple[str, ...]
    """Attributes with other values or another default: path, colon, how."""
    left_out: Count
    """How many entries the four lists lack altogether."""


# ----------------------------------------------------------------------------- asking


class Ask(Message, frozen=True):
    """Client: a question to the node (`status`, `dtd-list`, `dtd-show`, `explain`)."""

    kind = 0x30

    request: Count
    what: str
    arguments: Mapping[str, str]
    document: bytes = b""
    """The event that the question is about, or empty; it may be as large as a frame."""


class Answer(Message, frozen=True):
    """Node: the answer; an error where `error`'s code is not empty."""

    kind = 0x31

    request: Count
    error: WireErrorFields
    content: Any


#: Says that there is no error, where a message has room for one.
NO_ERROR: WireError = ("", "", 0, 0)

#: Kinds of the messages that carry events: `broker.wire.event_batch`.
PUBLISH = 0x10
DELIVER = 0x28


CODEC: Final = Codec[Message](
    *(Hello, Welcome, Refuse, Goodbye, Published, NotPublished, Subscribe, Subscribed, Flowing),
    *(Unsubscribe, Ended, Acknowledge, Progress, Gap, Credit, TypeChanged, Ask, Answer),
)
_encode = CODEC.encode
#: Messages that have a field more since version 2.
_LONGER_IN_VERSION_2: Final = (Subscribe, Progress)


def encode(message: Message, version: int = PROTOCOL_VERSIONS[-1]) -> bytes:
    """Return the bytes of a control message, with the fields that `version` has."""
    if version == 1 and isinstance(message, _LONGER_IN_VERSION_2):
        return CODEC.encode_first(message, len(message.__struct_fields__) - 1)
    return _encode(message)


_OTHER_NODES = "other nodes connect there: clients take one of the node's listen.endpoints"
#: The first message of either side of a greeting between nodes, which is of another protocol.
_NODE_PROTOCOL_HINTS: Final = {
    b"\x40": "a node greets where clients connect: it needs the port of this node's network.listen",
    b"\x42": _OTHER_NODES,
    b"\x43": _OTHER_NODES,
}


_LARGE: Final = frozenset((Answer.kind, Published.kind, Ask.kind))


def decode(data: bytes) -> Message:
    """Return the control message in `data`. Raises `ProtocolError`."""
    if (meant := _NODE_PROTOCOL_HINTS.get(data[:1])) is not None:
        raise ProtocolError(meant)
    if len(data) > MAX_CONTROL and data[0] not in _LARGE:
        name = CODEC.by_kind[data[0]].__name__ if data[0] in CODEC.by_kind else "a message"
        raise ProtocolError(f"{name} of {len(data)} bytes")
    message = CODEC.decode(data)
    if isinstance(message, Ask) and len(data) - len(message.document) > MAX_CONTROL:
        raise ProtocolError(f"Ask of {len(data)} bytes")
    return message
