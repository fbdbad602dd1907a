"""Profile of a session: its client, and its subscriptions."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from broker.delivery.session_delivery import SessionDelivery
from broker.identity import Identity
from broker.subscriptions.client_owner import NO_OWNER, ClientOwner


@attrs.define(eq=False)
class Profile:
    """Durable names are by subscription number."""

    identity: Identity
    delivery: SessionDelivery
    incarnation: int = 0
    token: bytes = attrs.field(default=b"", repr=False)
    node_address: str = ""
    """Address of this node in the Welcome of the newest connection."""
    owner: ClientOwner = NO_OWNER
    """Stored with its durable subscriptions."""
    durable_names: dict[int, str] = attrs.field(factory=dict)
    record: Callable[[str, str], object] = lambda *_: None
    """Adds a record to the audit log: an action, and the name of a durable subscription."""
