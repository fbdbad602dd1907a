"""Other nodes' origins, for who answers in a node's place: see `recovery.standing_in`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broker.cluster.flows.frame import Range
from broker.cluster.keeping.pages import page_of
from broker.cluster.network import Network
from broker.event.place import Mark
from broker.store.records import LoggedEvent


class ForeignOrigins:
    """Implements `recovery.standing_in.Flows`."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def wanted(self) -> Mapping[str, Mark]:
        """Those whose node is none of the own cluster that can be reached; none while nothing is
        wanted here."""
        network = self._network
        knowledge, log = network.knowledge, network.event_log
        if knowledge is None or not any(True for _ in network.driver.local):
            return {}
        return {
            origin: mark
            for origin, mark in log.coverage.marks.items()
            if origin != log.origin and not knowledge.is_here(origin)
        }

    def stands_at(self, origin: str) -> Mark | None:
        """Up to where all of one is in the log that is wanted here."""
        coverage = self._network.event_log.coverage
        return coverage[origin] if origin in coverage else None

    def page(self, origin: str, after: Mark, upto: Mark, events: Sequence[LoggedEvent]) -> None:
        """All events of one in (after, upto]."""
        knowledge = self._network.knowledge
        if knowledge is not None:
            own = knowledge.address
            told = Range(own, after, upto, all=True)
            self._network.driver.send_frame(page_of(origin, own, [told], events))
