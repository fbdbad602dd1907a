"""A missing range of one origin, with its requests."""

from __future__ import annotations

from collections import Counter
from functools import partial

import attrs

from broker.cluster.address import Address
from broker.cluster.traffic.received_range import ReceivedRange
from broker.event.place import Mark
from broker.transport.backoff import Backoff

#: First and longest pause between requests.
RETRY_SECONDS = 1.0
MAX_RETRY_SECONDS = 30.0
#: Dropped ranges arrive again with the requested pages.
MAX_HELD_RANGES = 64
MAX_HELD_BYTES = 4 << 20
#: Seconds in which other logs may supply events of an origin that does not come back.
GONE_PATIENCE = 120.0


@attrs.define
class MissingRange:
    """A missing range of one origin, behind the node's position, and its requests."""

    target: Address
    request_at: float
    since: float
    """Time at which the range was found missing, or the position last advanced."""
    is_unfiltered: bool = False
    """Other nodes may have dropped this node's interest."""
    backoff: Backoff = attrs.field(
        factory=partial(Backoff, RETRY_SECONDS, MAX_RETRY_SECONDS, jitter=False)
    )
    is_gone: bool = False
    """A certificate has come that the log does not come back."""
    is_page_pending: bool = False
    """The next page is requested when the received one is durable."""
    requests: Counter[Address] = attrs.field(factory=Counter)
    """Counted since the position last advanced."""
    held: list[ReceivedRange] = attrs.field(factory=list)
    held_bytes: int = 0

    def hold(self, received: ReceivedRange) -> bool:
        """Hold a later range. Return False without room.

        One with dropped events is not held: until it is taken, interest with another policy may be
        added.
        """
        size = received.frame.size
        has_room = len(self.held) < MAX_HELD_RANGES and self.held_bytes + size <= MAX_HELD_BYTES
        if has_room and not received.range.dropped:
            self.held.append(received)
            self.held_bytes += size
            return True
        return False

    def expires_at(self, patience: float, *, is_gone: bool) -> float:
        """Return the time at which the node does not wait any more."""
        return self.since + (min(patience, GONE_PATIENCE) if is_gone else patience)

    @property
    def end(self) -> Mark | None:
        """Up to here places exist; None: unknown."""
        starts = [each.range.after for each in self.held if not each.is_unproved_announcement]
        return min(starts, default=None)
