"""Messages that are passed on to the node that they are for, beside frames (0x61 to 0x6F, 0x70)."""

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
    """Base of what is for one node, wherever it is."""

    least_version: ClassVar[int] = 1
    """Of the protocol between nodes: the message passes no neighbour of a lower version."""

    target: Address = attrs.field(converter=_address)
    source: Address = attrs.field(converter=_address)
    """Who said it, and where an answer goes."""
    hops: int = attrs.field(converter=fields.count)
    """How many links it may still pass."""

    @property
    def level(self) -> int:
        """The rank that links on its way have to be cleared for (X12)."""
        return 0

    def at_version(self, version: int) -> RoutedMessage:
        """The message as a link of this version of the protocol between nodes takes it."""
        return self


@register(0x61)
@attrs.frozen
class PageRequest(RoutedMessage):
    """To the home of an origin: send what comes behind `after`, as much as makes a page."""

    omits_empty_last = True

    origin: str = attrs.field(converter=fields.text)
    after: Mark = attrs.field(converter=fields.mark)
    is_unfiltered: bool = attrs.field(converter=fields.flag, default=False)
    """Whether what the reader is known to want says too little: send all that there is."""
    path: tuple[NamedHistory, ...] = attrs.field(converter=check_path, default=())
    """The histories that led there, the last one that of `after`; nothing: that is not known, or
    the link is of version 1."""

    def at_version(self, version: int) -> PageRequest:
        """See `RoutedMessage`."""
        return self if version >= 2 else attrs.evolve(self, path=())


@register(0x62)
@attrs.frozen
class ReplicaAck(RoutedMessage):
    """To the home of an origin: everything up to `upto` is durable here."""

    origin: str = attrs.field(converter=fields.text)
    upto: Mark = attrs.field(converter=fields.mark)


@register(0x66)
@attrs.frozen
class LogLost(RoutedMessage):
    """To who asks for what is in no log any more: of the origin, all up to `upto` is lost; None:
    all that has not been sent yet."""

    origin: str = attrs.field(converter=fields.text)
    upto: Mark | None = attrs.field(converter=_optional_mark)


@register(0x70)
@attrs.frozen
class DtdRequest(RoutedMessage):
    """Send the DTD of this type and version."""

    type: str = attrs.field(converter=fields.text)
    version: str = attrs.field(converter=fields.text)


@register(0x71)
@attrs.frozen
class DtdAnswer(RoutedMessage):
    """The DTD, self-contained; or why there is none, where the error's code is not empty."""

    type: str = attrs.field(converter=fields.text)
    version: str = attrs.field(converter=fields.text)
    error: tuple[str, str, int, int] = attrs.field(converter=fields.wire_error)
    text: bytes = attrs.field(converter=fields.octets, repr=False)
