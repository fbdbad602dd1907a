"""Interest of a node's subscriptions, announced to the network of clusters and to transports."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import reduce
from typing import Protocol

from twisted.internet.defer import Deferred, gatherResults

from broker.event.place import Mark, merge_marks
from broker.event.stream import StreamPattern
from broker.matching.query.query import Query
from broker.streams.interest_transport import Marks
from broker.streams.queue_policy import IQueuePolicy
from broker.streams.transports import StreamTransports
from broker.subscriptions.interest import Interest, OnActive


class NetworkInterest(Interest, Protocol):
    """The network's part, `broker.cluster.interest_announcer`."""

    def announce_here(
        self,
        key: Hashable,
        pattern: StreamPattern,
        query: Query,
        on_active: OnActive,
        position: Mapping[str, Mark] | None,
        active: Deferred[Marks],
    ) -> None:
        """Add interest that is not announced to other nodes, as `Interest.announce`.

        It becomes active when `active` fires, with the marks behind which its events come.
        """


class CarriedInterests:
    """Implements `broker.subscriptions.interest.Interest`.

    The network of clusters decides when interest is active: it serves the pages of all flows. So
    do transports that provide `IInterestTransport`. Interest that only these carry is not announced
    to the network. Interest in other streams too is announced there as a whole.
    """

    def __init__(self, network: NetworkInterest, transports: StreamTransports) -> None:
        self._network = network
        self._transports = transports

    def is_announced(self, key: Hashable, pattern: StreamPattern, query: Query) -> bool:
        return self._network.is_announced(key, pattern, query)

    def announce(
        self,
        key: Hashable,
        pattern: StreamPattern,
        query: Query,
        on_active: OnActive,
        position: Mapping[str, Mark] | None = None,
    ) -> None:
        is_known = self._network.is_announced(key, pattern, query)
        counts = self._transports.announce(key, pattern, query)
        if not is_known and self._transports.announce_alone(pattern):
            active = gatherResults(counts).addCallback(_merge)
            self._network.announce_here(key, pattern, query, on_active, position, active)
            return
        if counts:
            on_active = _after(gatherResults(counts), on_active)
        self._network.announce(key, pattern, query, on_active, position)

    def set_queue_policy(self, key: Hashable, policy: IQueuePolicy) -> None:
        self._transports.set_queue_policy(key, policy.text)
        self._network.set_queue_policy(key, policy)

    def mark_absent(self, key: Hashable) -> None:
        self._network.mark_absent(key)

    def withdraw(self, key: Hashable) -> None:
        self._transports.withdraw(key)
        self._network.withdraw(key)

    def set_resume_position(self, key: Hashable, position: Mapping[str, Mark]) -> None:
        self._network.set_resume_position(key, position)


def _merge(found: list[Marks]) -> Marks:
    return reduce(merge_marks, found, dict[str, Mark]())


def _after(counts: Deferred[list[Marks]], on_active: OnActive) -> OnActive:
    """Return a callback that waits for transports, and adds their marks."""

    def finish(found: list[Marks], marks: Marks) -> list[Marks]:
        on_active(reduce(merge_marks, found, marks))
        return found

    return lambda marks: counts.addCallback(finish, marks)
