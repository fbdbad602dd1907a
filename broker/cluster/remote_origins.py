"""Other nodes' origins, of which the rest is elsewhere: in the archive, or at a third node."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from broker.cluster.address import Address, unit_text
from broker.cluster.network import Network
from broker.cluster.replicas.page_frame import page_of
from broker.cluster.traffic.frame import Range
from broker.event.place import Mark
from broker.log.records import LoggedEvent


class ForeignOrigins:
    """Implements `recovery.silent_origins.SilentFlows`, and `recovery.other_logs.KnownOrigins`."""

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

    def gone(self, origin: str, after: Mark, upto: Mark) -> None:
        """No node has the events of one in (after, upto]."""
        self._network.driver.lose(origin, after, upto)

    def all(self) -> Collection[str]:
        """Those of which something is in the log or the replicas here, and this node's own."""
        log = self._network.event_log
        return {log.origin, *log.coverage, *log.kept}

    def reached(self, origin: str) -> Mark | None:
        """The furthest place of one in the log or the replica here; None: there is none."""
        log = self._network.event_log
        found = [log.coverage[origin]] if origin in log.coverage else []
        if origin in log.kept:
            found.append(log.kept[origin].upto)
        return max(found, default=None)

    def is_here(self, origin: str) -> bool:
        """Whether the log of one is at this node, or at one of its cluster that can be reached."""
        knowledge, own = self._network.knowledge, self._network.event_log.origin
        return origin == own or (knowledge is not None and knowledge.is_here(origin))

    def homes(self, origin: str) -> Sequence[str]:
        """The addresses of the nodes that have sent events of one since this node began."""
        traffic = self._network.traffic
        return [] if traffic is None else [str(each) for each in traffic.arrivals.homes(origin)]

    def nodes(self) -> Collection[str]:
        """The nodes of the cluster that can be reached, and the clusters beside it."""
        knowledge = self._network.knowledge
        if knowledge is None:
            return ()
        unit = knowledge.address.unit
        near = [str(Address(unit, name)) for name in knowledge.map.reachable()]
        return [*near, *map(unit_text, knowledge.map.entrances())]
