"""Links of transports over raw datagrams, in virtual time."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from twisted.internet.task import Clock
from zope.interface import implementer

from broker.streams.contract import ILinkReceiver
from broker.streams.datagram_links import DatagramLinks
from broker.testing.datagram_network import DatagramNetwork, SharedMemorySocket
from broker.transport.arq import ArqSettings, ConnectionLayer
from broker.transport.layer import ILayer
from broker.transport.message import Outcome
from broker.transport.multicast import MulticastLayer
from broker.transport.socket.contract import DATAGRAM_PROPERTIES
from broker.transport.stack import Stack
from broker.transport.view import LinkState

SETTINGS = ArqSettings(datagram_bytes=1300)


@implementer(ILinkReceiver)
class End:
    def __init__(self, clock: Clock, network: DatagramNetwork, name: str, dials: bool) -> None:
        self.address = name, 1
        self.received: list[tuple[Hashable, bytes]] = []
        self.states: list[tuple[Hashable, str]] = []
        layers: list[ILayer] = [ConnectionLayer(dials=dials, settings=SETTINGS), MulticastLayer()]
        self.links = DatagramLinks(
            "test",
            SharedMemorySocket(network, self.address),
            self,
            clock,
            lambda _: Stack("test", layers, DATAGRAM_PROPERTIES),
            lambda _: None,
        )

    def messages_received(self, peer: Hashable, messages: Sequence[bytes]) -> None:
        self.received += [(peer, each) for each in messages]

    def link_changed(self, peer: Hashable, state: LinkState) -> None:
        self.states.append((peer, state.value))


def test_layers_above_the_links_give_each_peer_an_outcome_and_states() -> None:
    clock = Clock()
    network = DatagramNetwork(clock, 1)
    here, *others = [End(clock, network, name, dials=name == "here") for name in ("here", "b", "c")]
    peers = [here.links.add_peer(each.address) for each in others]
    for _ in range(100):
        clock.advance(0.01)
    sent = here.links.send([b"x", b"y"], [*peers, ("d", 1)])
    assert sent == [{**dict.fromkeys(peers, Outcome.SENT), ("d", 1): Outcome.ABSENT}] * 2
    assert here.links.dropped == 2
    for _ in range(100):
        clock.advance(0.01)
    for each in others:
        assert each.received == [(here.address, b"x"), (here.address, b"y")]
        assert each.states == [(here.address, "connected")]
    assert here.states == [(peer, "connected") for peer in peers]
    network.cut(here.address, others[0].address)
    for _ in range(3000):
        clock.advance(0.01)
    assert here.states[2] == (peers[0], "disconnected")
    assert others[0].states[1] == (here.address, "disconnected")
