"""What a node's recoveries can ask."""

from __future__ import annotations

from collections.abc import Callable

import attrs
from twisted.internet.defer import Deferred

from broker.cluster.address import Address
from broker.delivery.recovery import Missed
from broker.recovery.archive_access import ArchiveAccess
from broker.recovery.log_page_reader import LogPages
from broker.recovery.page_exchange import Fetching
from broker.recovery.planner import Sources
from broker.recovery.remote_logs import OtherLogs
from broker.transport.clock import IClock

#: Seconds between looks whether what is waited for is there.
LOOK_AGAIN = 0.5


@attrs.frozen
class Surroundings:
    """What recoveries ask."""

    origin: str
    """Of this node's log."""
    pages: LogPages
    fetching: Fetching | None
    homes: Callable[[str], list[Address]]
    """Whose logs have all of an origin, the best first; this node's own is not among them."""
    reachable: Callable[[str], bool]
    """Whether there is a way to an address."""
    archive: ArchiveAccess | None
    clock: IClock
    patience: float
    """Seconds from its beginning that a recovery waits for nodes that can not be reached, for what
    nobody else has; and since its last event for an archive that can not be searched."""
    others: OtherLogs | None = None
    """What other nodes have logged of an origin whose log can not be read."""

    def after(self, seconds: float) -> Deferred[None]:
        """Fires when they have passed."""
        later: Deferred[None] = Deferred()
        self.clock.callLater(seconds, later.callback, None)
        return later

    def sources(self, missed: Missed, busy: int) -> Sources:
        """What there is to ask now; `busy` is how many other recoveries are under way."""
        here = self.fetching is not None
        logs = [
            origin
            for origin in missed.ranges
            if self.pages.keeps(origin) or (here and self.homes(origin))
        ]
        former = missed.former
        reachable = bool(former) and here and self.reachable(former)
        # Nothing is started to search for what this node's log is the first place to look for.
        is_cold = self.archive is not None and not self.archive.is_warm()
        only_own = missed.ranges.keys() == {self.origin}
        return Sources(
            former if reachable else "",
            logs,
            self.archive is not None,
            busy,
            alone=not here,
            unbounded=is_cold and only_own,
        )
