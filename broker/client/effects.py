"""What the client's core asks for, and what arrives for a subscription."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from broker.client.received import FlowStarted, Gap, Receipt, ReceivedEvent, TypeChanged
from broker.errors import BrokerError
from broker.event.place import Position
from broker.wire.fields import WireTimes


@attrs.define(eq=False)
class SharedDelivery:
    """Counts how many subscriptions have yet to take their part of one delivery."""

    remaining: int
    size: int
    """Bytes of the delivery."""


@attrs.frozen
class Send:
    """Give this message to the stack."""

    data: bytes


@attrs.frozen
class PublicationSettled:
    """A publication's result, for the waiter that came with it."""

    waiter: Any
    result: Receipt | BrokerError


@attrs.frozen
class EventBatch:
    """Events that one message brought for one subscription. Tell `ClientCore.mark_processed` when done."""

    events: Sequence[ReceivedEvent]
    delivery: SharedDelivery
    position: Position = Position()
    """Up to here nothing is missing when they are processed; empty where something may be."""


@attrs.frozen
class SubscriptionAccepted:
    """The node took the subscription."""

    warnings: tuple[str, ...]
    stored_position: Position | None


@attrs.frozen
class PositionMoved:
    """The position or the stream times moved without an event."""

    position: Position
    times: WireTimes = ()
    """The node's stream times of all origins; empty: unchanged."""


@attrs.frozen
class SubscriptionEnded:
    """The subscription ended; `error` is None if the client asked for it."""

    error: BrokerError | None
    position: Position = Position()
    """How far it was processed."""


Item: TypeAlias = (
    SubscriptionAccepted
    | FlowStarted
    | EventBatch
    | PositionMoved
    | Gap
    | TypeChanged
    | SubscriptionEnded
)


@attrs.frozen
class ItemArrived:
    """Something for the subscription with this number, in order."""

    number: int
    item: Item


@attrs.frozen
class ResumePoint:
    """Where a durable subscription was left."""

    position: Position
    node: str = ""
    """Address of the node at which it flowed last; empty if not known."""


@attrs.frozen
class SavePositions:
    """Durable subscriptions of this client by name, for its next process."""

    resume_points: Mapping[str, ResumePoint]


@attrs.frozen
class RequestAnswered:
    """The answer to a question."""

    request: int
    content: Any
    error: BrokerError | None


@attrs.frozen
class MessagesConsumed:
    """So many messages of the node are done with: credit for the stack."""

    count: int


@attrs.frozen
class PublishingBlocked:
    """The node takes no publications for now, and why; None when it takes them again."""

    error: BrokerError | None


@attrs.frozen
class SessionEnded:
    """The node ended the session, and why."""

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
