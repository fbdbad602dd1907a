"""What a node's recoveries can ask."""

from __future__ import annotations

from collections.abc import Callable

import attrs
from twisted.internet.defer import Deferred

from broker.cluster.address import Address
from broker.delivery.recovery import Missed
from broker.recovery.archive_access import ArchiveAccess
from broker.recovery.log_page_reader import LogPageReader
from broker.recovery.page_exchange import PageExchange
from broker.recovery.planner import AvailableSources
from broker.recovery.remote_logs import RemoteLogs
from broker.transport.clock import IClock

#: Seconds between looks whether what is waited for is there.
POLL_INTERVAL = 0.5


@attrs.frozen
class RecoveryContext:
    """What recoveries ask."""

    own_origin: str
    """Of this node's log."""
    page_reader: LogPageReader
    page_exchange: PageExchange | None
    origin_nodes: Callable[[str], list[Address]]
    """Whose logs have all of an origin, the best first; this node's own is not among them."""
    is_reachable: Callable[[str], bool]
    """Whether there is a way to an address."""
    archive: ArchiveAccess | None
    clock: IClock
    patience: float
    """Seconds from its beginning that a recovery waits for nodes that can not be reached, for what
    nobody else has; and since its last event for an archive that can not be searched."""
    remote_logs: RemoteLogs | None = None
    """What other nodes have logged of an origin whose log can not be read."""

    def sleep(self, seconds: float) -> Deferred[None]:
        """Fires when they have passed."""
        later: Deferred[None] = Deferred()
        self.clock.callLater(seconds, later.callback, None)
        return later

    def available_sources(self, missed: Missed, busy: int) -> AvailableSources:
        """What there is to ask now; `busy` is how many other recoveries are under way."""
        has_network = self.page_exchange is not None
        log_origins = [
            origin
            for origin in missed.ranges
            if self.page_reader.has_log_or_replica(origin)
            or (has_network and self.origin_nodes(origin))
        ]
        previous_node = missed.former
        can_reach = bool(previous_node) and has_network and self.is_reachable(previous_node)
        # Nothing is started to search for what this node's log is the first place to look for.
        is_cold = self.archive is not None and not self.archive.is_warm()
        only_own = missed.ranges.keys() == {self.own_origin}
        return AvailableSources(
            previous_node if can_reach else "",
            log_origins,
            self.archive is not None,
            busy,
            is_alone=not has_network,
            is_unbounded=is_cold and only_own,
        )
