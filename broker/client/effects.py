"""What the client's core asks for, and what arrives for a subscription."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from broker.client.received import Flow, Gap, Receipt, ReceivedEvent, TypeChanged
from broker.errors import BrokerError
from broker.event.place import Position
from broker.wire.codec import WireTimes


@attrs.define(eq=False)
class Share:
    """Counts how many subscriptions have yet to take their part of one delivery."""

    remaining: int
    size: int
    """Bytes of the delivery."""


@attrs.frozen
class Send:
    """Give this message to the stack."""

    data: bytes


@attrs.frozen
class Settled:
    """A publication's result, for the waiter that came with it."""

    waiter: Any
    result: Receipt | BrokerError


@attrs.frozen
class Portion:
    """Events that one message brought for one subscription. Tell `ClientCore.taken` when done."""

    events: Sequence[ReceivedEvent]
    share: Share
    position: Position = Position()
    """Up to here nothing is missing when they are processed; empty where something may be."""


@attrs.frozen
class Accepted:
    """The node took the subscription."""

    warnings: tuple[str, ...]
    stored: Position | None


@attrs.frozen
class Moved:
    """The position or the stream times moved without an event."""

    position: Position
    times: WireTimes = ()
    """The node's stream times of all origins; empty: unchanged."""


@attrs.frozen
class Over:
    """The subscription ended; `error` is None if the client asked for it."""

    error: BrokerError | None
    position: Position = Position()
    """How far it was processed."""


Item: TypeAlias = Accepted | Flow | Portion | Moved | Gap | TypeChanged | Over


@attrs.frozen
class Arrived:
    """Something for the subscription with this number, in order."""

    number: int
    item: Item


@attrs.frozen
class Left:
    """Where a durable subscription was left."""

    position: Position
    node: str = ""
    """Address of the node at which it flowed last; empty if not known."""


@attrs.frozen
class Keep:
    """Durable subscriptions of this client by name, for its next process."""

    durables: Mapping[str, Left]


@attrs.frozen
class Answered:
    """The answer to a question."""

    request: int
    content: Any
    error: BrokerError | None


@attrs.frozen
class Consumed:
    """So many messages of the node are done with: credit for the stack."""

    count: int


@attrs.frozen
class HeldUp:
    """The node takes no publications for now, and why; None when it takes them again."""

    error: BrokerError | None


@attrs.frozen
class SessionOver:
    """The node ended the session, and why."""

    error: BrokerError


Effect: TypeAlias = Send | Settled | Arrived | Answered | Consumed | HeldUp | Keep | SessionOver
