"""Objects that the lifecycle of a subscription needs from its session and its node."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from broker.delivery.feed import Feed
from broker.delivery.recovery_contract import RecoveryService
from broker.errors import BrokerError
from broker.log.event_log import EventLog
from broker.subscriptions.durable_subscriptions import DurableSubscriptions
from broker.subscriptions.interest import Interest
from broker.wire.messages import Flowing, Subscribed


@attrs.frozen
class SubscriptionCallbacks:
    send_message: Callable[[Subscribed | Flowing], object]
    start_feed: Callable[[], object]
    """Called after the client knows that it is accepted."""
    end_subscription: Callable[[BrokerError | None], object] = lambda _: None
    """Called if it ends without the client's request."""
    is_connected: Callable[[], bool] = lambda: True


@attrs.frozen
class SubscriptionContext:
    log: EventLog
    durables: DurableSubscriptions
    interest: Interest
    recovery: RecoveryService
    on_resumed: Callable[[Feed, int | None], object] = lambda *_: None
    """See `SubscriptionRequests`."""
