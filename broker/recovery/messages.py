"""Messages between nodes about durable handover and pages of logs.

`docs/protocols/recovery.md` describes them (P11, X6). Events are chunks of a log
(`broker.log.chunk`), one for each run of an origin.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Annotated, ClassVar, NamedTuple

import msgspec

from broker.cluster.address import UnitPath
from broker.cluster.messages import CODEC
from broker.cluster.traffic.messages import NumberedMessage, RoutedMessage
from broker.cluster.traffic.version import PROOF_VERSION, SIGNED_PAGE_VERSION
from broker.errors import ProtocolError
from broker.log.chunk import Chunk, encode_chunk
from broker.log.logged_event import LoggedEvent
from broker.wire.claim import Claim, SignedState
from broker.wire.codec import Address, Count, Rank, WireErrorFields, WireMark, WirePosition
from broker.wire.messages import NO_ERROR

#: A page has at least one event, but fits into a link's frame.
MAX_PAGE_BYTES = 1 << 30
_RANKS = 3
_origin = attrgetter("origin")

MAX_SEARCHED = 512

#: ClientId and name of a durable subscription.
DurableKey = tuple[str, str]
#: By origin a range (after, upto].
WireRanges = tuple[tuple[str, WireMark, WireMark | None], ...]


@CODEC.register
class TakeOver(NumberedMessage, frozen=True):
    kind = 0x80
    omitted = 2

    client_id: str
    name: str
    incarnation: Count
    token: bytes
    account: tuple[str, str] | None = None
    """Realm and account of the session; None at a node without accounts."""
    claim: Claim | None = None
    """The client's proof for the sender."""

    def at_version(self, version: int) -> TakeOver:
        if version >= PROOF_VERSION:
            return self
        return msgspec.structs.replace(self, account=None, claim=None)


@CODEC.register
class HandedOver(NumberedMessage, frozen=True):
    """The subscription has ended here and stays until `Release`, or an error."""

    kind = 0x81
    omitted = 1

    error: WireErrorFields = NO_ERROR
    position: WirePosition | None = None
    """None if the subscription is unknown."""
    moved_to: Address = ""
    """Address of the node that has it now; empty if the position is the newest."""
    signed: SignedState | None = None
    """The client's claim by which this node had it; None for a client without a key."""

    def at_version(self, version: int) -> HandedOver:
        return self if version >= PROOF_VERSION else msgspec.structs.replace(self, signed=None)


@CODEC.register
class Release(RoutedMessage, frozen=True):
    """Delete the subscription: its client has processed all earlier events."""

    kind = 0x82
    omitted = 1

    client_id: str
    name: str
    signed: SignedState | None = None
    """A claim of the client for the sender; None for a client without a key."""

    def at_version(self, version: int) -> Release:
        return self if version >= PROOF_VERSION else msgspec.structs.replace(self, signed=None)


@CODEC.register
class Released(RoutedMessage, frozen=True):
    kind = 0x85

    client_id: str
    name: str


#: Name in a `FetchPage` without a client: all logged events. Nodes of older versions find no such
#: subscription.
EVERYTHING_LOGGED = "*returned"


@CODEC.register
class FetchPage(NumberedMessage, frozen=True):
    """Ask for a page of matching events, from a serial of the log on."""

    kind = 0x83
    omitted = 1

    client_id: str
    name: str
    """The client's durable subscription; empty: only own events are requested."""
    pattern: str
    query: str
    namespaces: Mapping[str, str]
    clearance: Rank
    ranges: WireRanges
    serial: Count
    """0: the start of the ranges."""
    version: Count = 0
    """Version of the reader's node protocol, as records follow it; 0 for one before 4."""

    def at_version(self, version: int) -> FetchPage:
        if version >= PROOF_VERSION:
            return self
        return msgspec.structs.replace(self, version=0)


class PageSignature(NamedTuple):
    """Signature of a page by its sender (`broker.recovery.signed_page`)."""

    key: Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
    """Public key of the node."""
    signature: Annotated[bytes, msgspec.Meta(min_length=64, max_length=64)]


@CODEC.register
class PageFetched(NumberedMessage, frozen=True):
    kind = 0x84
    omitted = 1
    max_bytes: ClassVar[int] = MAX_PAGE_BYTES
    is_droppable: ClassVar[bool] = True

    error: WireErrorFields = NO_ERROR
    reached: WirePosition = ()
    """Marks up to which complete origins were read."""
    next: Count = 0
    """Serial of the next page; 0: none."""
    rank: Rank = 0
    chunks: tuple[bytes, ...] = ()
    begins: WirePosition = ()
    """Marks after which incomplete origins are complete."""
    origin: str = ""
    """Origin of the answering node. No other node can have more of it."""
    signature: PageSignature | None = None
    """None from a node of an earlier version, or over a link of one."""

    @property
    def level(self) -> int:
        return self.rank

    def at_version(self, version: int) -> PageFetched:
        if version >= SIGNED_PAGE_VERSION:
            return self
        return msgspec.structs.replace(self, signature=None)


@CODEC.register
class FindDurables(NumberedMessage, frozen=True):
    """Ask for durable subscriptions at this node or, with a unit, at all nodes of that unit."""

    kind = 0x86

    keys: Annotated[tuple[DurableKey, ...], msgspec.Meta(max_length=MAX_SEARCHED)]
    unit: UnitPath | None
    within: Count
    """Ms until the answer must arrive."""


@CODEC.register
class DurablesFound(NumberedMessage, frozen=True):
    kind = 0x87

    found: tuple[tuple[Count, Address], ...]
    """Pairs of an index into `keys` and a node."""
    is_complete: bool


def pack_events(events: Sequence[LoggedEvent]) -> tuple[bytes, ...]:
    return tuple(encode_chunk(list(run)) for _, run in groupby(events, key=_origin))


def unpack_events(chunks: Sequence[bytes]) -> list[LoggedEvent]:
    """Raises `ProtocolError`."""
    found: list[LoggedEvent] = []
    try:
        for data in chunks:
            chunk = Chunk(0, data)
            events = list(chunk.events_from(0)) if chunk.is_exact else []
            if not events or any(event.level >= _RANKS for event in events):
                raise ValueError("not exact")
            found += events
    except (ValueError, LookupError, struct.error):
        raise ProtocolError("malformed events") from None
    return found
