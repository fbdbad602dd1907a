"""Sleep on a clock."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from broker.transport.clock import IClock


def sleep(clock: IClock, seconds: float = 0.0) -> Deferred[None]:
    """Return a Deferred that fires after `seconds`; after 0 in the reactor's next turn."""
    later: Deferred[None] = Deferred()
    clock.callLater(seconds, later.callback, None)
    return later
