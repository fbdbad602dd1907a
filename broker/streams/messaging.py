"""Messages of applications in the order of a group, without events (RCM R8-R12)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import NamedTuple, TypeAlias, cast

import attrs
from twisted.internet.defer import Deferred
from zope.interface import Attribute, Interface

from broker.event.site_notice import SiteNotice
from broker.streams.contract import IStreamTransport
from broker.transport.message import Message, Outcome, Peer
from broker.transport.order import MessageId, Place, Stamp


class ClientAddress(NamedTuple):
    """A client at a site: a source, or a destination beside names of sites."""

    site: str
    client: str


class Delivery(NamedTuple):
    """A message in its place of the order. Clients of a site share it, and do not change it.

    The message has its `payload`, `source` and `destinations`.
    """

    message: Message
    id: MessageId
    part: int
    """Place among the messages with this id: those that its site's clients sent in one turn."""
    stamp: Stamp
    late: Place | None
    """Ids of the delivered messages before and after the place of a late message (T16)."""
    is_recovered: bool
    """The message was on its way when its site was reported as disconnected (R26)."""

    @property
    def source(self) -> ClientAddress:
        return cast(ClientAddress, self.message.source)


@attrs.frozen
class LostItems:
    """The client was too slow: its queue was full, and did not take this number of items.

    The present status of each site follows.
    """

    count: int


#: One sequence for a client: what comes in it (R26).
Item: TypeAlias = Delivery | SiteNotice | LostItems
Receive: TypeAlias = Callable[[Item], object]


class IGroupClient(Interface):
    """A named client of a group at one site.

    It gets the items by its callback, or is an async iterator of them. The first items are the
    present statuses of the other sites; with a callback they come while it is opened.

    The queue of an iterator that is not read has a bound of items and bytes. A full queue takes
    nothing more until it is half empty: `LostItems` stands in the place. A callback that raises
    closes its client. No client delays another one.
    """

    address: ClientAddress = Attribute("address of this client")
    sites: tuple[str, ...] = Attribute("all sites of the group, as destinations of a message")

    def send(message: Message) -> Deferred[Mapping[Peer, Outcome]]:
        """Send a message to its destinations: names of sites, which stand for all their clients,
        and `ClientAddress`es. The message gets this client as its `source`.

        Fires with the outcome at each site among the destinations, which is also in
        `message.outcomes`, when the message is sent: mostly in this turn of the reactor. A site
        that is suspected gets it later (R11). A message that is ABSENT or FULL at a site keeps its
        place at others. This client gets its own messages too, in the order (K36).

        Raises `UnknownDestination` for a site that is not in the group, `NotAllowed` for another
        source, `TooLarge`, and `Closed`.
        """

    def close() -> None:
        """Get no more items. An iterator ends after those in its queue."""

    def __aiter__() -> AsyncIterator[Item]:
        """Raises `Closed` for a client with a callback."""


class IMessagingTransport(IStreamTransport):
    """A transport whose groups carry messages of applications, beside events."""

    def open_client(name: str, receive: Receive | None = None) -> IGroupClient:
        """Return a new client of this site, with a callback, or without one as an iterator.

        Raises `BadName`, `NameTaken`, and `Overloaded` beyond 100 clients.
        """
