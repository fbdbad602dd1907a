"""A session as the input component sees it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import attrs

from broker.dtd.reference import DtdReference
from broker.errors import BrokerError
from broker.identity import Identity
from broker.session.batches import Batch
from broker.session.messages import NotPublished, Published


@attrs.define(eq=False)
class Publisher:
    """One publisher's batches on their way into the log."""

    identity: Identity
    incarnation: int
    answer: Callable[[Published | NotPublished], None]
    """Called once for every batch."""
    waiting: deque[Batch] = attrs.field(factory=deque)
    held: bool = False
    """Whether what waits waits for a DTD."""
    resend_from: int | None = None
    """The batch that has to come again before any later one is taken."""
    taking: bool = False
    allowed: set[str] = attrs.field(factory=set)
    """Streams that it is known to have the right for."""
    missing: dict[DtdReference, BrokerError] = attrs.field(factory=dict)
    """Types that could not be had for what waits, and why."""
