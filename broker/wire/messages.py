"""The messages of a session: see `docs/protocols/session.md`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from broker.errors import ProtocolError, VersionMismatch, WireError
from broker.event.event_time import ANY_TIME
from broker.wire.claim import Claim
from broker.wire.codec import (
    Address,
    Codec,
    Count,
    Factor,
    Message,
    Offset,
    WireErrorFields,
    WireMark,
    WirePosition,
    WireTimes,
)
from broker.wire.held_flows import HeldBack, Hold
from broker.wire.site_notice import (
    MessagesCovered,
    MessagesMissing,
    MessagesMoved,
    StatusChanged,
)

#: Version 2 adds stream times, version 3 queue policies, version 4 order entries
#: and notices about sites, version 5 `MessagesCovered`, version 6 `Hold` and `HeldBack`, version 7
#: logins that do not send the secret, and claims, version 8 how events were validated, and their
#: own times.
PROTOCOL_VERSIONS = (1, 2, 3, 4, 5, 6, 7, 8)
QUEUE_POLICY_VERSION = 3
ORDER_VERSION = 4
COVERAGE_VERSION = 5
HOLD_VERSION = 6
LOGIN_VERSION = CLAIM_VERSION = 7
STATE_VERSION = 8
#: Bytes of DELIVER before the first `Credit`.
INITIAL_CREDIT = 1 << 20
MAGIC = "xmlbroker"
#: In bytes; a query alone may have `query.max_length`.
MAX_CONTROL = 256 * 1024


class Hello(Message, frozen=True):
    """Client: the first packet, before the stack is attached."""

    kind = 0x01

    magic: str
    versions: tuple[Count, ...]
    client_id: str
    incarnation: Count
    token: bytes
    """16 random bytes that identify this session: a client with them may resume it."""
    account: str
    credential: str
    """Empty, or version 7: mechanism, a space, and its data; before: the secret itself."""

    def __repr__(self) -> str:
        return f"Hello({self.client_id!r}, {self.incarnation}, {self.account!r})"


class Welcome(Message, frozen=True):
    """Node: accepts the connection; the stack begins."""

    kind = 0x02

    version: Count
    node: str
    origin: str
    max_event_bytes: Count
    max_frame_bytes: Count
    address: Address
    """Address of the node (cluster path and name); the name alone without a network."""
    proof: bytes = b""
    """After a login by secret: the node's proof that it has the account."""


class Challenge(Message, frozen=True):
    """Node: part of a login, before Welcome."""

    kind = 0x05

    data: bytes


class Response(Message, frozen=True):
    """Client: answers a challenge."""

    kind = 0x06

    data: bytes


class Refuse(Message, frozen=True):
    """Node: refuses the connection, or ends the session."""

    kind = 0x03

    error: WireErrorFields


class Goodbye(Message, frozen=True):
    """Client: ends the session."""

    kind = 0x04


class Published(Message, frozen=True):
    """Node: outcome of a batch. Every event that is not refused is durable.

    `first` is the place of the first new event; the others follow it, except those of `later`:
    (index, mark). `duplicates` are the indices of events accepted before.
    """

    kind = 0x11

    batch: Count
    first: WirePosition
    accepted: Count
    duplicates: tuple[Count, ...]
    refused: tuple[tuple[Count, WireErrorFields], ...]
    later: tuple[tuple[Count, WireMark], ...] = ()


class NotPublished(Message, frozen=True):
    """Node: this batch was not stored completely, and no later one: send all again.

    Until then later batches get this message too, so that no event overtakes one of its publisher.
    """

    kind = 0x12

    batch: Count
    retry_ms: Count
    error: WireErrorFields


class Subscribe(Message, frozen=True):
    """Client: requests events. `number` is new in this session."""

    kind = 0x20

    number: Count
    pattern: str
    query: str
    namespaces: Mapping[str, str]
    durable: str
    """Name of a durable subscription, or empty."""
    start: str
    """`new`, `all`, `position`, `time`, `last`, or `stored` (the stored position of a durable one,
    or `position` if that is further; else new)."""
    position: WirePosition
    """For `position` and `stored`: the position that the client has reached."""
    time: Count
    """For `time`: ms since 1970."""
    previous_address: Address = ""
    """Address of its previous node, as in that node's `Welcome`; empty if unknown."""
    until_ms: Count = 0
    """It ends before the first event of this arrival time or later; 0: no such end."""
    until: WirePosition = ()
    """It ends when all events up to this position are delivered; empty: no such end."""
    last: Count = 0
    """For `last`: the number of newest matching events."""
    pace: Factor = 0.0
    """Recovered events follow their original pace times this factor; 0: as fast as possible."""
    rate: Count = 0
    """Most recovered events a second; 0: no bound."""
    processed: WirePosition | None = None
    """For a durable one that continues at `position`: the processed position, which is stored."""
    times: bool = False
    """True if `Progress` is to carry stream times."""
    queue: str = ""
    """Queue policy while the session is full, such as `drop-newest`; empty: `block` for a durable
    one, else `drop-oldest`."""
    claim: Claim | None = None
    """For a durable one: the proof that the ClientId is the client's."""
    event_times: tuple[Offset, Offset] = ANY_TIME
    """Only events with own times in this range. Only with an end."""
    paced_by_time: bool = False
    """True if `pace` follows the events' own times, not their arrival."""


class Subscribed(Message, frozen=True):
    """Node: accepts the subscription. `warnings` are for people."""

    kind = 0x21

    number: Count
    position: WirePosition | None
    """Stored position of a durable one; None if there is none."""
    warnings: tuple[str, ...]


class Flowing(Message, frozen=True):
    """Node: after `cut` no matching event is missed."""

    kind = 0x22

    number: Count
    cut: WirePosition


class Unsubscribe(Message, frozen=True):
    """Client: ends a subscription; `forget` deletes a durable one."""

    kind = 0x23

    number: Count
    forget: bool


class Ended(Message, frozen=True):
    """Node: ends the subscription. The error is empty if the client asked."""

    kind = 0x24

    number: Count
    error: WireErrorFields


class Acknowledge(Message, frozen=True):
    """Client: durable subscriptions are processed up to these positions."""

    kind = 0x25

    positions: tuple[tuple[Count, WirePosition], ...]


class Progress(Message, frozen=True):
    """Node: everything that matches has been delivered up to here."""

    kind = 0x26

    positions: tuple[tuple[Count, WirePosition], ...]
    times: tuple[tuple[Count, WireTimes], ...] = ()
    """Stream times of every origin, for subscriptions with `times`: later matching events were
    committed after that time, in ms since 1970. 0: the time is unknown."""


class Gap(Message, frozen=True):
    """Node: events that may have matched are lost.

    `reason`: `retention` (no log has them; `count` places are lost), `lost` (not found elsewhere),
    `damaged` (no other source has them), `slow` (a queue was full) or `coalesced` (newer events
    replaced them in a queue). With the last two, exactly `count` matching events were dropped, or
    at most so many between nodes. Bounds are inclusive.
    """

    kind = 0x27

    number: Count
    origin: str
    first: WireMark
    last: WireMark
    count: Count
    reason: str


class Credit(Message, frozen=True):
    """Client: total bytes of DELIVER messages in this session.

    Separate from p2p's credit: unread deliveries do not hold back receipts.
    """

    kind = 0x29

    limit: Count


class TypeChanged(Message, frozen=True):
    """Node: a newer version of a type affects this subscription's query.

    Paths are label paths such as `/flight/leg/@status`. Each list is shortened.
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
    """For the first two: the reason why the query can not match events of one version."""
    paths: tuple[str, ...]
    """Added, removed or changed paths that the query reads."""
    came: tuple[str, ...]
    went: tuple[str, ...]
    changed: tuple[str, ...]
    """Attributes with other values or another default: path, colon, change."""
    left_out: Count
    """Number of entries omitted from the four lists."""


class Ask(Message, frozen=True):
    """Client: a question, such as `status` or `explain`."""

    kind = 0x30

    request: Count
    what: str
    arguments: Mapping[str, str]
    document: bytes = b""
    """The event of the question, or empty; at most as large as a frame."""


class Answer(Message, frozen=True):
    """Node: an answer, or an error with a code."""

    kind = 0x31

    request: Count
    error: WireErrorFields
    content: Any


NO_ERROR: WireError = ("", "", 0, 0)

PUBLISH = 0x10
DELIVER = 0x28


CODEC: Final = Codec[Message](
    *(
        Hello,
        Challenge,
        Response,
        Welcome,
        Refuse,
        Goodbye,
        Published,
        NotPublished,
        Subscribe,
        Subscribed,
        Flowing,
    ),
    *(Unsubscribe, Ended, Acknowledge, Progress, Gap, Credit, TypeChanged, Ask, Answer),
    *(StatusChanged, MessagesMissing, MessagesMoved, MessagesCovered, Hold, HeldBack),
)
_encode = CODEC.encode


def encode(message: Message, version: int = PROTOCOL_VERSIONS[-1]) -> bytes:
    """Omit fields that `version` does not have, and trailing ones that are empty.

    Raises `VersionMismatch` for a queue policy or times that `version` does not have.
    """
    if isinstance(message, Subscribe):
        return _encode_subscribe(message, version)
    if isinstance(message, Welcome) and not message.proof:
        return CODEC.encode_first(message, len(message.__struct_fields__) - 1)
    if version == 1 and isinstance(message, Progress):
        return CODEC.encode_first(message, len(message.__struct_fields__) - 1)
    return _encode(message)


def _encode_subscribe(message: Subscribe, version: int) -> bytes:
    if message.queue and version < QUEUE_POLICY_VERSION:
        raise VersionMismatch(f"the node is too old for the queue policy {message.queue[:80]}")
    count = len(message.__struct_fields__)
    if message.event_times != ANY_TIME or message.paced_by_time:
        if version < STATE_VERSION:
            raise VersionMismatch("the node is too old for replays by the events' own times")
        return _encode(message)
    count -= 2
    if message.claim is None or version < CLAIM_VERSION:
        count -= 1 if message.queue else 2 if version > 1 else 3
    return CODEC.encode_first(message, count)


_OTHER_NODES = "other nodes connect there: clients take one of the node's listen.endpoints"
_NODE_PROTOCOL_HINTS: Final = {
    b"\x40": "a node greets where clients connect: it needs the port of this node's network.listen",
    b"\x42": _OTHER_NODES,
    b"\x43": _OTHER_NODES,
}


_LARGE: Final = frozenset((Answer.kind, Published.kind, Ask.kind))


def decode(data: bytes) -> Message:
    """Raises `ProtocolError`."""
    if (meant := _NODE_PROTOCOL_HINTS.get(data[:1])) is not None:
        raise ProtocolError(meant)
    if len(data) > MAX_CONTROL and data[0] not in _LARGE:
        name = CODEC.by_kind[data[0]].__name__ if data[0] in CODEC.by_kind else "a message"
        raise ProtocolError(f"{name} of {len(data)} bytes")
    message = CODEC.decode(data)
    if isinstance(message, Ask) and len(data) - len(message.document) > MAX_CONTROL:
        raise ProtocolError(f"Ask of {len(data)} bytes")
    return message
