"""Messages routed to one node over several hops (0x61 to 0x6F, 0x70)."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from broker.cluster.address import Address
from broker.cluster.messages import CODEC, Message
from broker.cluster.traffic.known_histories import MAX_HISTORIES
from broker.cluster.traffic.version import PROOF_VERSION
from broker.wire.codec import Count, WireErrorFields, WireHistory, WireMark


class RoutedMessage(Message, frozen=True):
    least_version: ClassVar[int] = 1
    """Links of a lower version do not carry the message."""
    is_droppable: ClassVar[bool] = False
    """True if a full link drops the message: its request is repeated. Else the link is ended."""

    target: Address
    source: Address
    hops: Count
    """Links that the message may still cross."""

    @property
    def level(self) -> int:
        """Rank that each link of the route must be cleared for (X12)."""
        return 0

    def at_version(self, version: int) -> RoutedMessage:
        return self


class NumberedMessage(RoutedMessage, frozen=True):
    """Requests, and replies with the number of their request."""

    request: Count


@CODEC.register
class PageRequest(RoutedMessage, frozen=True):
    """To an origin node: send the events behind `after`."""

    kind = 0x61
    omitted = 2

    origin: str
    after: WireMark
    is_unfiltered: bool = False
    """The stored interest of the reader may be too narrow."""
    path: Annotated[tuple[WireHistory, ...], msgspec.Meta(max_length=MAX_HISTORIES)] = ()
    """Ends with the history of `after`; empty if unknown or over version 1."""
    may_drop: bool = False
    """The reader takes less than all events, as the queue policy of its interest says."""

    def __post_init__(self) -> None:
        if sorted(set(self.path)) != list(self.path):
            raise ValueError("histories do not ascend")

    def at_version(self, version: int) -> PageRequest:
        if version >= 3:
            return self
        path = self.path if version == 2 else ()
        return msgspec.structs.replace(self, path=path, may_drop=False)


@CODEC.register
class ReplicaAck(RoutedMessage, frozen=True):
    """To an origin node: the sender's replica is durable up to `upto`."""

    kind = 0x62

    origin: str
    upto: WireMark


@CODEC.register
class LogLost(RoutedMessage, frozen=True):
    """Answer to a page request: events up to `upto` are lost; None: all that were not sent."""

    kind = 0x66
    omitted = 1

    origin: str
    upto: WireMark | None
    certificate: bytes = b""
    """Proof of a lost log (`broker.signatures.gone_certificate`), since version 5; or empty."""

    def at_version(self, version: int) -> LogLost:
        if version >= PROOF_VERSION:
            return self
        return msgspec.structs.replace(self, certificate=b"")


@CODEC.register
class DtdRequest(RoutedMessage, frozen=True):
    kind = 0x70

    type: str
    version: str


@CODEC.register
class DtdAnswer(RoutedMessage, frozen=True):
    """A self-contained DTD, or an error with a non-empty code."""

    kind = 0x71

    type: str
    version: str
    error: WireErrorFields
    text: bytes
