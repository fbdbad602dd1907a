"""Seeds by multicast: Twisted adapter of `multicast_search`. The caller owns the socket."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from zope.interface import implementer

from broker.cluster.descriptor import Endpoint
from broker.cluster.discovery.multicast_search import SeedSearch
from broker.cluster.discovery.seed_source import ISeedSource
from broker.errors import Closed
from broker.transport.deadline_timer import DeadlineTimer


@implementer(ISeedSource)
class MulticastSeeds:
    """Searches a multicast group. The caller owns the socket."""

    def __init__(
        self, reactor: IReactorTime, network: str, key: bytes | None, send: Callable[[bytes], None]
    ) -> None:
        self._reactor = reactor
        self._network = network
        self._key = key
        self._send = send
        self._search: SeedSearch | None = None
        self._timer = DeadlineTimer(reactor, self._handle_timeout)
        self._waiting: list[Deferred[Sequence[Endpoint]]] = []

    def find_seeds(self) -> Deferred[Sequence[Endpoint]]:
        """Search; concurrent calls share one search."""
        answer: Deferred[Sequence[Endpoint]] = Deferred()
        self._waiting.append(answer)
        if self._search is None:
            self._search = SeedSearch(self._network, self._key)
            self._continue_search(self._search, self._search.start(self._reactor.seconds()))
        return answer

    def receive_datagram(self, datagram: bytes) -> None:
        if self._search:
            self._search.receive_datagram(datagram)

    def close(self) -> None:
        """Stop; a running search fails with `Closed`."""
        self._timer.arm(None)
        self._search = None
        waiting, self._waiting = self._waiting, []
        for answer in waiting:
            answer.errback(Closed("the search for nodes was stopped"))

    def _continue_search(self, search: SeedSearch, datagrams: Sequence[bytes]) -> None:
        for datagram in datagrams:
            self._send(datagram)
        due = search.next_timeout()
        self._timer.arm(due)
        if due is not None:
            return
        self._search = None
        waiting, self._waiting = self._waiting, []
        for answer in waiting:
            answer.callback(search.endpoints())

    def _handle_timeout(self) -> None:
        if self._search is not None:
            now = self._reactor.seconds()
            self._continue_search(self._search, self._search.handle_timeout(now))
