"""Effects of a site's end of a group, applied in order by the transport."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import attrs

from broker.errors import BrokerError
from broker.streams.contract import FlowBatch
from broker.transport.order import MessageId, Stamp
from broker.transport.view import LinkState


@attrs.frozen
class SendData:
    """Send messages to sites."""

    data: Sequence[bytes]
    sites: Sequence[str]


@attrs.frozen
class PassOn:
    """Pass a received batch on to the node. It comes back by `IOrderingTransport.order`."""

    batch: FlowBatch


@attrs.frozen
class DeliverBatch:
    """Deliver events in the final order."""

    batch: FlowBatch


@attrs.frozen
class MoveMessage:
    """Give a delivered message another place in the order."""

    id: MessageId
    before: Stamp
    stamp: Stamp


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
class SendCertificates:
    """Send a packet about order certificates to a site. It may be lost."""

    site: str
    data: bytes


LinkEffect: TypeAlias = SendData | SuspectSite | EndLink | SendCertificates
GroupEffect: TypeAlias = (
    LinkEffect | PassOn | DeliverBatch | MoveMessage | ReportStatus | ReportMissing
)
