"""Control messages of a connection: msgpack arrays in its stream (DCP D57).

Each is preceded by its length (`broker.transport.socket.framing`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from broker.errors import BadName, ProtocolError
from broker.event.stream import StreamPattern
from broker.streams.contract import CarriedInterest
from broker.streams.queue_policy import MAX_POLICY_TEXT
from broker.streams.ticket import MOST_TICKET_BYTES, PROOF_BYTES
from broker.wire.codec import Rank
from plugins.dcp.event_range import Description
from plugins.dcp.packet import MOST_AN
from plugins.dcp.parts import MOST_RANGE_BYTES

#: Bytes of one message.
MOST_MESSAGE_BYTES: Final = 4 << 20
#: Queries of one node.
MOST_QUERIES: Final = 10_000
#: Characters of them in sum.
MOST_QUERY_BYTES: Final = 1 << 20
#: Sequences that one parent describes.
MOST_SEQUENCES: Final = 10_000
#: Children that a refusal names.
MOST_CANDIDATES: Final = 64
MOST_LEVEL: Final = 32
MOST_DIVERSITY: Final = 16
#: Things that all paths of a node share, as far as it states them.
MOST_SHARED: Final = 64
MOST_PATHS: Final = 1_000
#: IP multicast groups of one node.
MOST_GROUPS: Final = 16

Epoch = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Number = Annotated[int, Meta(ge=0, le=MOST_AN)]
Index = Annotated[int, Meta(ge=1, le=2**16 - 1)]
Level = Annotated[int, Meta(ge=0, le=MOST_LEVEL)]
Name = Annotated[str, Meta(max_length=255)]
TicketBytes = Annotated[bytes, Meta(max_length=MOST_TICKET_BYTES)]
Proof = Annotated[bytes, Meta(max_length=PROOF_BYTES)]
#: Pattern, query, and namespaces with their prefixes.
Query = tuple[Name, Annotated[str, Meta(max_length=65_536)], tuple[tuple[Name, Name], ...]]
Queries = Annotated[tuple[Query, ...], Meta(max_length=MOST_QUERIES)]


class Join(msgspec.Struct, tag="join", array_like=True, frozen=True):
    """A node asks for a place as a child."""

    name: Name
    level: Level
    """Its level if that is fixed, since it has children; else 0."""
    clearance: Rank = 2
    """Rank of the highest security level of events that it accepts."""
    ticket: TicketBytes = b""
    """Of a client (`broker.streams.ticket`)."""
    multicast: Name = ""
    """Address and port of the first IP multicast group that it can join; empty: of none."""
    proof: Proof = b""
    """Of the ticket, for this connection."""
    takes_late: bool = False
    """True if it understands `LateEvent`."""


class TicketRenewal(msgspec.Struct, tag="ticket", array_like=True, frozen=True):
    """A client shows a newer ticket."""

    ticket: TicketBytes
    proof: Proof = b""


class Offer(msgspec.Struct, tag="offer", array_like=True, frozen=True):
    """A place is reserved. The node takes it by its interest."""

    name: Name
    level: Level
    diversity: Annotated[tuple[tuple[Name, Name], ...], Meta(max_length=MOST_DIVERSITY)]
    children: Annotated[tuple[Name, ...], Meta(max_length=MOST_CANDIDATES)]
    """Their addresses, for a node that finds fewer roots than it needs parents."""
    proof: Proof = b""
    """To a client: the parent has the key of its ticket."""


class Refused(msgspec.Struct, tag="refused", array_like=True, frozen=True):
    reason: Name
    children: Annotated[tuple[Name, ...], Meta(max_length=MOST_CANDIDATES)]
    """Their addresses: they may have a place."""
    query: Query | None = None
    """To a child: the query that is refused. It stays a child with its earlier interest."""


class Interest(msgspec.Struct, tag="interest", array_like=True, frozen=True):
    """All interest of a child. It replaces that of an earlier epoch."""

    epoch: Epoch
    queries: Queries
    queue: Annotated[str, Meta(max_length=MAX_POLICY_TEXT)] = "block"
    """Policy for events that the child is too slow for: that of all its interest, or `block`."""


class SequenceStart(msgspec.Struct, array_like=True, frozen=True):
    """A sequence of a parent, and the AN behind which its first range begins.

    In `InForce` it is the AN behind which the query is in force.
    """

    index: Index
    description: Description
    an: Number


class InForce(msgspec.Struct, tag="in-force", array_like=True, frozen=True):
    """A parent selects events by the child's interest of this epoch.

    It counts for sequences that are not listed from their begin at this parent.
    """

    epoch: Epoch
    sequences: Annotated[tuple[SequenceStart, ...], Meta(max_length=MOST_SEQUENCES)]


class LateEvent(msgspec.Struct, tag="late", array_like=True, frozen=True):
    """An event that earlier ranges of its sequence have left out."""

    flow: Name
    epoch: Epoch
    entry: Annotated[bytes, Meta(max_length=MOST_RANGE_BYTES)]


class GroupSequence(msgspec.Struct, array_like=True, frozen=True):
    """A sequence in the packets of a group."""

    index: Index
    start: SequenceStart
    """The same sequence on this connection."""


class Group(msgspec.Struct, tag="group", array_like=True, frozen=True):
    """A parent sends events of the interest in force to an IP multicast group.

    A further message for the same group adds sequences.
    """

    id: Annotated[int, Meta(ge=1, le=2**32 - 1)]
    """In the packets, instead of that of a connection."""
    number: Annotated[int, Meta(ge=0, lt=MOST_GROUPS)]
    """Its address is by so many above that of the first group."""
    key: Annotated[bytes, Meta(min_length=16, max_length=32)]
    """Of the tags of its packets."""
    sequences: Annotated[tuple[GroupSequence, ...], Meta(max_length=MOST_SEQUENCES)]


class Ungroup(msgspec.Struct, tag="ungroup", array_like=True, frozen=True):
    """All further events come on the connection."""


class ParentState(msgspec.Struct, tag="state", array_like=True, frozen=True):
    """The standing of a parent (`plugins.dcp.mesh.standing`)."""

    level: Level
    paths: Annotated[int, Meta(ge=0, le=MOST_PATHS)]
    shared: Annotated[tuple[Name, ...], Meta(max_length=MOST_SHARED)]


class Beacon(msgspec.Struct, tag="beacon", array_like=True, frozen=True):
    """A sign of life of a root, with the nodes that have passed it on."""

    root: Name
    number: Number
    sent: Number
    """Ms since 1970, by the root's clock."""
    survival: Annotated[float, Meta(ge=0, le=1)]
    """Share of packets that come through all links so far."""
    path: Annotated[tuple[Name, ...], Meta(max_length=MOST_LEVEL)]


class Leaving(msgspec.Struct, tag="leaving", array_like=True, frozen=True):
    """A parent ends soon: its child looks for another one first."""


class Reinitialise(msgspec.Struct, tag="reinitialise", array_like=True, frozen=True):
    """A parent asks for permission to drop its children, or a child gives it (D65)."""


ControlMessage: TypeAlias = (
    Join
    | TicketRenewal
    | Offer
    | Refused
    | Interest
    | InForce
    | LateEvent
    | Group
    | Ungroup
    | ParentState
    | Beacon
    | Leaving
    | Reinitialise
)

_DECODER: Final = msgspec.msgpack.Decoder(ControlMessage)
encode_message: Final = msgspec.msgpack.Encoder().encode
_START: Final = msgspec.msgpack.Decoder(SequenceStart)


def decode_message(data: bytes) -> ControlMessage:
    """Raises `ProtocolError`."""
    try:
        message: ControlMessage = _DECODER.decode(data)
        return message
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise ProtocolError(f"a control message: {error}") from None


def decode_start(data: bytes) -> SequenceStart:
    """Raises `ProtocolError`."""
    try:
        return _START.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise ProtocolError(f"the description of a sequence: {error}") from None


def fit_into_message(queries: Collection[Query]) -> bool:
    """Return whether queries can be sent. More are requested as everything."""
    size = sum(len(pattern) + len(text) for pattern, text, _ in queries)
    return len(queries) <= MOST_QUERIES and size <= MOST_QUERY_BYTES


def to_query(interest: CarriedInterest) -> Query:
    return interest.pattern.text, interest.query, tuple(sorted(interest.namespaces.items()))


def to_interest(query: Query) -> CarriedInterest:
    """Raises `ProtocolError` for a pattern that is none."""
    pattern, text, namespaces = query
    try:
        return CarriedInterest(StreamPattern.parse(pattern), text, dict(namespaces))
    except BadName as error:
        raise ProtocolError(f"the interest of a child: {error.text}") from None
