"""Effects of a site's end of a group, applied in order by the transport."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import attrs

from broker.errors import BrokerError
from broker.event.site_notice import MOST_MOVES, MovedMessage, MovedMessages
from broker.streams.contract import FlowBatch
from broker.transport.order import Move
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
class MoveMessages:
    """Give delivered messages other places in the order."""

    moves: list[Move]


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
    LinkEffect | PassOn | DeliverBatch | MoveMessages | ReportStatus | ReportMissing
)


def add_move(effects: list[GroupEffect], move: Move) -> None:
    """Add a move to the effect of the move before it, if it has room."""
    last = effects[-1] if effects else None
    if isinstance(last, MoveMessages) and len(last.moves) < MOST_MOVES:
        last.moves.append(move)
    else:
        effects.append(MoveMessages([move]))


def make_notice(stack: str, moves: Sequence[Move]) -> MovedMessages:
    return MovedMessages(stack, tuple(MovedMessage(*each.id, *each.stamp) for each in moves))
