"""Messages routed to one node over several hops (0x61 to 0x6F, 0x70)."""

from __future__ import annotations

from typing import Any, ClassVar

import attrs

from broker.cluster.address import Address
from broker.cluster.descriptor import checked_address
from broker.cluster.messages import Message, register
from broker.cluster.traffic.known_histories import check_path
from broker.event.place import Mark, NamedHistory
from broker.wire import fields


def _address(value: Any) -> Address:
    return checked_address(tuple(value))


def _optional_mark(value: Any) -> Mark | None:
    return None if value is None else fields.mark(value)


@attrs.frozen
class RoutedMessage(Message):
    """Base of messages to one node anywhere in the network."""

    least_version: ClassVar[int] = 1
    """Lowest version of the node protocol; links of a lower version do not carry the message."""

    target: Address = attrs.field(converter=_address)
    source: Address = attrs.field(converter=_address)
    hops: int = attrs.field(converter=fields.count)
    """Links that the message may still cross."""

    @property
    def level(self) -> int:
        """Rank that each link of the route must be cleared for (X12)."""
        return 0

    def at_version(self, version: int) -> RoutedMessage:
        """Return the form of the message for a link of this version."""
        return self


@register(0x61)
@attrs.frozen
class PageRequest(RoutedMessage):
    """Request the events behind `after` from an origin node."""

    omits_empty_last = True

    origin: str = attrs.field(converter=fields.text)
    after: Mark = attrs.field(converter=fields.mark)
    is_unfiltered: bool = attrs.field(converter=fields.flag, default=False)
    """Send all events: the stored interest of the reader may be too narrow."""
    path: tuple[NamedHistory, ...] = attrs.field(converter=check_path, default=())
    """Histories up to `after`, ending with its own; empty if unknown or over a link of version
    1."""

    def at_version(self, version: int) -> PageRequest:
        """Drop the path for links of version 1."""
        return self if version >= 2 else attrs.evolve(self, path=())


@register(0x62)
@attrs.frozen
class ReplicaAck(RoutedMessage):
    """To an origin node: everything up to `upto` is durable in the sender's replica."""

    origin: str = attrs.field(converter=fields.text)
    upto: Mark = attrs.field(converter=fields.mark)


@register(0x66)
@attrs.frozen
class LogLost(RoutedMessage):
    """Answer to a page request: events up to `upto` are lost; None: all that were not sent."""

    origin: str = attrs.field(converter=fields.text)
    upto: Mark | None = attrs.field(converter=_optional_mark)


@register(0x70)
@attrs.frozen
class DtdRequest(RoutedMessage):
    type: str = attrs.field(converter=fields.text)
    version: str = attrs.field(converter=fields.text)


@register(0x71)
@attrs.frozen
class DtdAnswer(RoutedMessage):
    """A self-contained DTD, or an error with a non-empty code."""

    type: str = attrs.field(converter=fields.text)
    version: str = attrs.field(converter=fields.text)
    error: tuple[str, str, int, int] = attrs.field(converter=fields.wire_error)
    text: bytes = attrs.field(converter=fields.octets, repr=False)
