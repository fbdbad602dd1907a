"""The parts of a node that its recoveries use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs

from broker.cluster.address import Address
from broker.delivery.recovery_contract import RecoveryRequest
from broker.event.flow import origin_of
from broker.event.place import Mark
from broker.queue_memory import QueueMemory
from broker.recovery.archive_access import ArchiveAccess
from broker.recovery.log_page_reader import LogPageReader
from broker.recovery.page_exchange import PageExchange
from broker.recovery.planner import AvailableSources
from broker.recovery.remote_logs import RemoteLogs
from broker.transport.clock import IClock

#: Seconds.
POLL_INTERVAL = 0.5


@attrs.frozen
class RecoveryContext:
    own_origin: str
    page_reader: LogPageReader
    page_exchange: PageExchange | None
    origin_nodes: Callable[[str], list[Address]]
    """Returns the other nodes that have all events of an origin, the best first."""
    is_reachable: Callable[[str], bool]
    archive: ArchiveAccess | None
    clock: IClock
    patience: float
    """Seconds that a recovery waits for unreachable nodes, or since its last event for an
    unreadable archive.
    """
    remote_logs: RemoteLogs | None = None
    """None without a network."""
    flows_of: Callable[[str], Sequence[str]] = lambda flow: (flow,)
    """Returns all flows that share the places of a flow's origin."""
    is_gone: Callable[[str], bool] = lambda _: False
    """Returns True if the log of an origin does not come back."""
    revoked: Mapping[str, Mark] = attrs.field(factory=dict)
    """By origin of a revoked log, its last trusted place."""
    queue_memory: QueueMemory = attrs.field(factory=QueueMemory)
    """Counts the events that a recovery holds."""
    must_prove: bool = False
    """True if pages of other clusters without a proof never show that no events are missing."""

    def available_sources(self, missed: RecoveryRequest, busy: int) -> AvailableSources:
        """`busy` counts the other active recoveries."""
        has_network = self.page_exchange is not None
        log_origins = [
            origin
            for origin in missed.ranges
            if self.page_reader.has_log_or_replica(origin)
            or (has_network and self.origin_nodes(origin))
        ]
        previous_node = missed.previous_address
        can_reach = bool(previous_node) and has_network and self.is_reachable(previous_node)
        # This log has own events, so the replayer is not started for them.
        is_cold = self.archive is not None and not self.archive.is_warm()
        only_own = {*map(origin_of, missed.ranges)} == {self.own_origin}
        return AvailableSources(
            previous_node if can_reach else "",
            log_origins,
            self.archive is not None,
            busy,
            is_alone=not has_network,
            is_unbounded=is_cold and only_own,
        )
