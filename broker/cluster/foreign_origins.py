"""Other nodes' origins, for who answers in a node's place: see `recovery.standing_in`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from broker.cluster.flows.frame import Range
from broker.cluster.keeping.pages import page_of
from broker.cluster.network import Network
from broker.event.place import Mark
from broker.store.records import LoggedEvent


class ForeignOrigins:
    """Implements `recovery.standing_in.Flows`."""

    def __init__(self, network: Network) -> None:
        self._network = network

    @property
    def idle(self) -> bool:
        """Whether nothing is wanted here, or the node is in no cluster."""
        return self._network.knowledge is None or not self._network.driver.local

    def wanted(self) -> Mapping[str, Mark]:
        """Those whose node is none of the own cluster that can be reached."""
        knowledge, log = self._network.knowledge, self._network.event_log
        if knowledge is None:
            return {}
        return {
            origin: mark
            for origin, mark in log.coverage.marks.items()
            if origin != log.origin and not knowledge.is_here(origin)
        }

    def new(self, origins: Collection[str]) -> Mapping[str, Mark]:
        """Those of which nothing has come, though something has waited for them."""
        network = self._network
        knowledge, coverage = network.knowledge, network.event_log.coverage
        if knowledge is None:
            return {}
        unknown = [o for o in origins if o not in coverage and not knowledge.is_here(o)]
        marks = {origin: network.driver.wanted_behind(origin) for origin in unknown}
        return {origin: mark for origin, mark in marks.items() if mark is not None}

    def stands_at(self, origin: str) -> Mark | None:
        """Up to where all of one is in the log that is wanted here."""
        coverage = self._network.event_log.coverage
        if origin in coverage:
            return coverage[origin]
        return self._network.driver.wanted_behind(origin)

    def page(self, origin: str, after: Mark, upto: Mark, events: Sequence[LoggedEvent]) -> None:
        """All events of one in (after, upto]."""
        knowledge = self._network.knowledge
        if knowledge is not None:
            own = knowledge.address
            told = Range(own, after, upto, all=True)
            self._network.driver.send_frame(page_of(origin, own, [told], events))
