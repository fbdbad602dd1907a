"""Effects of a site's end of a group, applied in order by the transport."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias

import attrs

from broker.errors import BrokerError
from broker.event.site_notice import SiteNotice
from broker.streams.contract import FlowBatch
from broker.transport.message import Message
from broker.transport.order import MessageId, Place, Stamp
from broker.transport.view import LinkState
from plugins.rcm.delivered_run import DeliveredRun
from plugins.rcm.payload import Channel


@attrs.frozen
class SendData:
    """Send messages to sites."""

    data: Sequence[bytes]
    sites: Sequence[str]


@attrs.frozen
class SendMessages:
    """Send one message of the links, which carries copies of messages that are no events.

    Its outcome at a site is that of each copy.
    """

    data: bytes
    sites: Sequence[str]
    carried: Sequence[Message]


@attrs.frozen
class PassOn:
    """Pass a received batch on to the node. It comes back by `IOrderingTransport.order`."""

    batch: FlowBatch


@attrs.frozen
class DeliverBatch:
    """Deliver events in the final order."""

    batch: FlowBatch
    runs: Sequence[DeliveredRun]
    """Of the same events, without those that have no place in the order."""
    is_taken_back: bool = False
    """An earlier delivery of the flow has failed meanwhile: the events come again."""


class DeliverMessage(NamedTuple):
    """Deliver a message that is no event, in the final order; late if it has a place.

    It is empty if it was for other sites.
    """

    channel: Channel
    id: MessageId
    stamp: Stamp
    late: Place | None
    data: bytes
    is_recovered: bool
    """Its site was told as disconnected before (R26)."""


class IChannelReceiver(Protocol):
    """The part of a site that gets the messages of a channel."""

    def deliver(self, delivered: DeliverMessage) -> None:
        """Raises `ProtocolError`: the link to the message's site is ended."""


@attrs.frozen
class MoveMessage:
    """Give a delivered message another place in the order."""

    id: MessageId
    before: Stamp | None
    stamp: Stamp
    late: Place | None


@attrs.frozen
class SuspectSite:
    """Suspect a site for a reason of the order."""

    site: str
    reason: str


@attrs.frozen
class ReportStatus:
    """Report a new status of a site, in its place among the deliveries (R26)."""

    site: str
    state: LinkState
    reason: str


@attrs.frozen
class EndLink:
    """End the link to a site that has broken the protocol."""

    site: str
    error: BrokerError


@attrs.frozen
class ReportMissing:
    """Report that messages of a site will not come (L6)."""

    site: str
    incarnation: int
    first: int
    last: int


@attrs.frozen
class SendPacket:
    """Send a packet of an observer to sites. It may be lost."""

    data: bytes
    sites: Sequence[str]


@attrs.frozen
class PassNotice:
    """Pass a notice of an observer to subscriptions."""

    notice: SiteNotice


LinkEffect: TypeAlias = SendData | SuspectSite | EndLink | SendPacket
GroupEffect: TypeAlias = (
    LinkEffect
    | SendMessages
    | PassOn
    | DeliverBatch
    | DeliverMessage
    | MoveMessage
    | ReportStatus
    | ReportMissing
    | PassNotice
)
