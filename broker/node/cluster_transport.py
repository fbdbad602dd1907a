"""The network of clusters as a stream transport."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from twisted.internet.defer import Deferred, succeed
from zope.interface import implementer

from broker.cluster.address import Address
from broker.cluster.network import Network
from broker.config.stacks import DEFAULT_STACK
from broker.streams.contract import (
    CarriedInterest,
    FlowBatch,
    IStreamTransport,
    ITransportContext,
)


@implementer(IStreamTransport)
class ClusterTransport:
    """The network of clusters as a transport, of the default flow and of those of its instances.

    Its interest is announced first. The default instance starts and stops it.
    """

    def __init__(self, network: Network, context: ITransportContext) -> None:
        self._network = network
        self._context = context
        self._is_default = context.instance == DEFAULT_STACK

    def listen(self) -> None:
        """Do nothing: `broker.cluster.listener` has listened before."""

    def start(self) -> None:
        if self._is_default:
            self._network.start()

    def stop(self) -> Deferred[None]:
        return Deferred.fromCoroutine(self._network.stop()) if self._is_default else succeed(None)

    def announce(self, key: str, interest: CarriedInterest) -> None:
        """Do nothing: `Network.interest` announces all interest."""

    def withdraw(self, key: str) -> None:
        """Do nothing, as for `announce`."""

    def publish(self, batch: FlowBatch) -> None:
        targets = cast(Sequence[frozenset[Address]], self._context.match(batch))
        self._network.send_frames(batch, targets)

    def recovered(self, batch: FlowBatch) -> None:
        """Do nothing: the network itself brought the events."""

    def snapshot(self) -> Mapping[str, object]:
        state = self._network.state
        own = self._network.membership.instance_links.values()
        links = [each.snapshot() for each in own if each.instance == self._context.instance]
        return {
            "peers": [] if state is None else sorted(state.map.members()),
            **({"links": links} if links else {}),
        }
