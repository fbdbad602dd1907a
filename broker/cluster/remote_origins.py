"""Origins of other nodes, for recovery from the archive or from third nodes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from broker.cluster.address import Address, unit_text
from broker.cluster.network import Network
from broker.cluster.replicas.page_frame import make_page_frame
from broker.cluster.traffic.frame_range import Range
from broker.event.flow import origin_of
from broker.event.place import Mark
from broker.log.logged_event import LoggedEvent


class RemoteOrigins:
    """Implements `broker.recovery.silent_origin.SilentOriginFlows` and
    `broker.recovery.remote_logs.KnownOrigins`."""

    def __init__(self, network: Network) -> None:
        self._network = network

    @property
    def has_no_interest(self) -> bool:
        return self._network.state is None or not self._network.driver.local_interest

    def unreachable_positions(self) -> Mapping[str, Mark]:
        """Return the marks of origins without a reachable node in the cluster."""
        state, log = self._network.state, self._network.event_log
        if state is None:
            return {}
        return {
            origin: mark
            for origin, mark in log.coverage.marks.items()
            if not log.flows.is_own(origin) and not state.is_origin_in_cluster(origin)
        }

    def positions_of_new(self, origins: Collection[str]) -> Mapping[str, Mark]:
        network = self._network
        state, coverage = network.state, network.event_log.coverage
        if state is None:
            return {}
        unknown = [o for o in origins if o not in coverage and not state.is_origin_in_cluster(o)]
        marks = {origin: network.driver.wanted_after(origin) for origin in unknown}
        return {origin: mark for origin, mark in marks.items() if mark is not None}

    def position_of(self, origin: str) -> Mark | None:
        """Return the mark up to which the log is complete."""
        coverage = self._network.event_log.coverage
        if origin in coverage:
            return coverage[origin]
        return self._network.driver.wanted_after(origin)

    def ingest_page(
        self, origin: str, after: Mark, upto: Mark, events: Sequence[LoggedEvent]
    ) -> None:
        """With all events in (after, upto]."""
        state = self._network.state
        if state is not None:
            own = state.address
            range_ = Range(own, after, upto, is_unfiltered=True)
            self._network.driver.send_frame(make_page_frame(origin, own, [range_], events))

    def give_up_range(self, origin: str, after: Mark, upto: Mark, reason: str) -> None:
        """Continue behind (after, upto]. Subscriptions of this node get a gap with the reason."""
        self._network.driver.give_up_range(origin, after, upto, reason)

    def is_gone(self, origin: str) -> bool:
        """Return True if the origin's log does not come back."""
        return self._network.gone.is_gone(origin)

    def list_origins(self) -> Collection[str]:
        log = self._network.event_log
        replicas = {flow for origin in log.replica_spans for flow in log.flows.of_origin(origin)}
        return {log.origin, *log.coverage, *replicas}

    def furthest_place(self, origin: str) -> Mark | None:
        """Return the furthest place in the log or replica here."""
        log = self._network.event_log
        found = [log.coverage[origin]] if origin in log.coverage else []
        if span := log.replica_spans.get(origin_of(origin)):
            found.append(log.flows.limit(origin, span.upto))
        return max(found, default=None)

    def is_log_reachable(self, origin: str) -> bool:
        """Return True if the log is here, or at a reachable node of the cluster."""
        state, flows = self._network.state, self._network.event_log.flows
        return flows.is_own(origin) or (state is not None and state.is_origin_in_cluster(origin))

    def sender_addresses(self, origin: str) -> Sequence[str]:
        """Return the nodes that sent events of an origin since this node's start."""
        traffic = self._network.traffic
        return [] if traffic is None else [str(each) for each in traffic.receiver.nodes_of(origin)]

    def reachable_nodes(self) -> Collection[str]:
        """Return the reachable nodes of the cluster, and the clusters beside it."""
        state = self._network.state
        if state is None:
            return ()
        unit = state.address.unit
        near = [str(Address(unit, name)) for name in state.map.reachable()]
        return [*near, *map(unit_text, state.map.gateways_by_unit())]
