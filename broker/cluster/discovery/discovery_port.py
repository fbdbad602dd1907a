"""Sockets of a discovery group, for questions and answers of this node and of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.defer import Deferred
from zope.interface import implementer

from broker.cluster.descriptor import Endpoint, NodeDescriptor
from broker.cluster.discovery.multicast_search import SearchResponder
from broker.cluster.discovery.multicast_seeds import MulticastSeeds
from broker.cluster.discovery.seed_source import ISeedSource
from broker.transport.socket.multicast import MulticastSocket


@implementer(ISeedSource)
class DiscoveryPort:
    """Member of a multicast group for discovery, also among nodes of one host.

    `describe` returns the node's descriptor and whether its cluster has room; None while it is in
    no cluster.
    """

    def __init__(
        self,
        reactor: Any,
        place: tuple[str, int],
        interface: str,
        network: str,
        key: bytes | None,
        describe: Callable[[], tuple[NodeDescriptor, bool] | None],
    ) -> None:
        self._reactor = reactor
        self._multicast = MulticastSocket(reactor, *place, interface, loop=True)
        self._describe = describe
        self._responder = SearchResponder(network, key)
        self._seeds = MulticastSeeds(reactor, network, key, self._send_question)

    def start(self) -> None:
        """Join the group. Raises Twisted's `CannotListenError`."""
        self._multicast.start()
        self._multicast.users.set_untagged_user(self._receive_batch)

    def stop(self) -> None:
        self._seeds.close()
        self._multicast.stop()

    def find_seeds(self) -> Deferred[Sequence[Endpoint]]:
        return self._seeds.find_seeds()

    def _receive_batch(self, batch: Sequence[tuple[bytes, Any]]) -> None:
        for datagram, address in batch:
            self._seeds.receive_datagram(datagram)
            described = self._describe()
            if described is not None:
                answer = self._responder.answer_datagram(
                    datagram, *described, self._reactor.seconds()
                )
                if answer is not None:
                    self._multicast.send([answer], address)

    def _send_question(self, datagram: bytes) -> None:
        self._multicast.send_to_group([datagram])
