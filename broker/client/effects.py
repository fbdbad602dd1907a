"""Effects of the client's core, and the items that a subscription receives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from broker.client.received import FlowStarted, Gap, Receipt, ReceivedEvent, TypeChanged
from broker.errors import BrokerError
from broker.event.place import Position
from broker.event.site_notice import SiteNotice
from broker.wire.codec import WireTimes


@attrs.define(eq=False)
class SharedDelivery:
    """Number of subscriptions that have yet to process their part."""

    remaining: int
    size: int


@attrs.frozen
class Send:
    data: bytes


@attrs.frozen
class PublicationSettled:
    waiter: Any
    result: Receipt | BrokerError


@attrs.frozen
class EventBatch:
    """Events of one message for one subscription."""

    events: Sequence[ReceivedEvent]
    delivery: SharedDelivery
    position: Position = Position()
    """Nothing is missing up to here once they are processed; empty if something may be."""


@attrs.frozen
class SubscriptionAccepted:
    warnings: tuple[str, ...]
    stored_position: Position | None


@attrs.frozen
class PositionMoved:
    """Progress without an event."""

    position: Position
    times: WireTimes = ()
    """The node's stream times of all origins; empty: unchanged."""


@attrs.frozen
class SubscriptionEnded:
    """`error` is None if the client ended it."""

    error: BrokerError | None
    position: Position = Position()


Item: TypeAlias = (
    SubscriptionAccepted
    | FlowStarted
    | EventBatch
    | PositionMoved
    | Gap
    | TypeChanged
    | SiteNotice
    | SubscriptionEnded
)


@attrs.frozen
class ItemArrived:
    number: int
    item: Item


@attrs.frozen
class ResumePoint:
    position: Position
    node: str = ""
    """Address of the node at which it was last active; empty if unknown."""


@attrs.frozen
class SavePositions:
    resume_points: Mapping[str, ResumePoint]


@attrs.frozen
class RequestAnswered:
    request: int
    content: Any
    error: BrokerError | None


@attrs.frozen
class MessagesConsumed:
    """Return credit to the stack."""

    count: int


@attrs.frozen
class PublishingBlocked:
    """Reason that the node takes no publications; None when it takes them again."""

    error: BrokerError | None


@attrs.frozen
class SessionEnded:
    error: BrokerError


Effect: TypeAlias = (
    Send
    | PublicationSettled
    | ItemArrived
    | RequestAnswered
    | MessagesConsumed
    | PublishingBlocked
    | SavePositions
    | SessionEnded
)


def item_effects(number: int, items: Iterable[Item]) -> list[Effect]:
    return [ItemArrived(number, item) for item in items]
