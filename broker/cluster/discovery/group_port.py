"""The socket of a discovery group: questions of this node and of others, and answers to both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.protocol import DatagramProtocol
from zope.interface import implementer

from broker.cluster.descriptor import Endpoint, NodeDescriptor
from broker.cluster.discovery.contract import ISeedSource
from broker.cluster.discovery.group import GroupSeeds
from broker.cluster.discovery.group_core import Presence


@implementer(ISeedSource)
class GroupPort(DatagramProtocol):
    """A member of a multicast group (IPv4) in which nodes find each other.

    `present` tells how this node describes itself, and whether there is room in its cluster; None
    while it is in none, and so has nothing to answer.
    """

    def __init__(
        self,
        reactor: Any,
        place: tuple[str, int],
        interface: str,
        network: str,
        key: bytes | None,
        present: Callable[[], tuple[NodeDescriptor, bool] | None],
    ) -> None:
        self._reactor = reactor
        self._place = place
        self._interface = interface
        self._present = present
        self._presence = Presence(network, key)
        self._seeds = GroupSeeds(reactor, network, key, self._ask)
        self._port: Any = None

    def start(self) -> None:
        """Join the group. Raises Twisted's `CannotListenError`."""
        group, port = self._place
        self._port = self._reactor.listenMulticast(port, self, listenMultiple=True)
        self._port.setTTL(1)
        if self._interface:
            self._port.setOutgoingInterface(self._interface)
        self._port.joinGroup(group, self._interface)

    def stop(self) -> None:
        """Leave it."""
        self._seeds.close()
        if self._port is not None:
            self._port.stopListening()

    def seeds(self) -> Deferred[Sequence[Endpoint]]:
        """See `ISeedSource`."""
        return self._seeds.seeds()

    def datagramReceived(self, datagram: bytes, addr: Any) -> None:
        """A question, or an answer."""
        self._seeds.received(datagram)
        present = self._present()
        if present is not None:
            answer = self._presence.received(datagram, *present, self._reactor.seconds())
            if answer is not None and self.transport is not None:
                self.transport.write(answer, addr)

    def _ask(self, datagram: bytes) -> None:
        if self.transport is not None:
            self.transport.write(datagram, self._place)
