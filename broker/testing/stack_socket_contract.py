"""Contract tests for every implementation of IProtocolStack over real sockets, TCP and UDP.

Mix the class into trial's `TestCase`, and set `stack` and `options` as for `StackContract`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

from twisted.internet import reactor as the_reactor
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint, TCP4ServerEndpoint
from twisted.trial.unittest import TestCase

from broker.errors import NotConnected
from broker.testing.stack_network import StackEnd, build
from broker.transport.arq.udp_port import UdpPort
from broker.transport.layer import Property
from broker.transport.message import Outcome
from broker.transport.socket.tcp import TcpChannelFactory
from broker.transport.socket.udp import UdpSocket
from broker.transport.stacks import IProtocolStack, Transport
from broker.transport.view import LinkState

reactor = cast(Any, the_reactor)

_HERE = "127.0.0.1"

if TYPE_CHECKING:
    _Base = TestCase
else:
    _Base = object


class StackSocketContract(_Base):
    """Three ends, each connected with every other."""

    timeout = 30
    stack: ClassVar[IProtocolStack]
    options: ClassVar[object] = None
    _waiting: Deferred[None] | None = None

    async def test_messages_reach_all_peers_over_tcp_and_survive_broken_connections(self) -> None:
        await self._converse(Transport.TCP)

    async def test_messages_reach_all_peers_over_udp_and_survive_broken_connections(self) -> None:
        await self._converse(Transport.UDP)

    async def test_messages_reach_all_peers_over_raw_datagrams(self) -> None:
        await self._converse(Transport.DATAGRAM)

    async def _converse(self, transport: Transport) -> None:
        if transport not in self.stack.transports:
            return
        ends = [self._make_end(number, transport) for number in range(3)]
        one = ends[0]
        for end in ends:
            for peer in ends:
                if peer is not end:
                    incarnation = 10 * ends.index(end) + ends.index(peer) + 1
                    stack = build(self.stack, self.options, incarnation, transport, suspect=20.0)
                    end.driver.join(peer.name, stack)
        await self._connect_all(ends, transport)
        for number in range(100):
            for end in ends:
                outcomes = end.send(b"%d" % number, *(peer for peer in ends if peer is not end))
                self.assertEqual(set(outcomes.values()), {Outcome.SENT})
        await self._until_arrived(ends)
        for peer in ends[1:]:
            one.driver.abort(peer.name, NotConnected("broken on purpose"))
        if Property.RESUMABLE in one.driver.provides:
            one.send(b"while the connections are broken", *ends[1:])
        for peer in ends[1:]:
            await self._connect(one, peer, transport)
        await self._until_arrived(ends)
        for end in ends:
            self.assertEqual(end.errors, [])
            for name in list(end.driver.links):
                end.driver.close(name)
        await self._until(lambda: all(self._are_not_connected(end) for end in ends))
        for end in ends:
            for name in list(end.driver.links):
                end.driver.remove(name, NotConnected("the test is over"))

    def _make_end(self, number: int, transport: Transport) -> StackEnd:
        stack = build(self.stack, self.options, transport=transport)
        end = StackEnd(f"end {number}", stack, reactor)
        end.on_change = self._changed
        return end

    async def _connect_all(self, ends: list[StackEnd], transport: Transport) -> None:
        for place, end in enumerate(ends):
            for peer in ends[place + 1 :]:
                await self._connect(end, peer, transport)

    async def _connect(self, end: StackEnd, peer: StackEnd, transport: Transport) -> None:
        """Connect a pair at a port of its own."""
        accept = partial(peer.driver.attach, end.name)
        if transport is Transport.TCP:
            endpoint = TCP4ServerEndpoint(reactor, 0, interface=_HERE)
            port = await endpoint.listen(TcpChannelFactory(accept))
            self.addCleanup(port.stopListening)
            dial = TCP4ClientEndpoint(reactor, _HERE, port.getHost().port)
            await dial.connect(TcpChannelFactory(partial(end.driver.attach, peer.name)))
        elif transport is Transport.DATAGRAM:
            sockets = [UdpSocket(reactor, _HERE, 0) for _ in range(2)]
            for socket in sockets:
                socket.start()
                self.addCleanup(socket.stop)
            ports = [socket.users.open_port("tested") for socket in sockets]
            for number, (near, far) in enumerate(((end, peer), (peer, end))):
                address = sockets[number].resolve(*sockets[1 - number].bound_address)
                near.driver.attach(far.name, ports[number].connect(address))
        else:
            there = UdpPort(reactor, _HERE, 0, accept)
            here = UdpPort(reactor, _HERE, 0, lambda channel: None)
            for udp in (there, here):
                udp.start()
                self.addCleanup(udp.stop)
            end.driver.attach(peer.name, await here.connect(*there.bound_address))
        await self._until(
            lambda: (end.state_of(peer), peer.state_of(end)) == (LinkState.CONNECTED,) * 2
        )

    async def _until_arrived(self, ends: list[StackEnd]) -> None:
        def have_arrived() -> bool:
            return all(
                peer.received_from(end) == end.sent[peer.name] for end in ends for peer in ends
            )

        await self._until(have_arrived)

    @staticmethod
    def _are_not_connected(end: StackEnd) -> bool:
        return all(views[-1].state is not LinkState.CONNECTED for views in end.views.values())

    def _changed(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            # Not inside the call of a driver.
            reactor.callLater(0, waiting.callback, None)

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._waiting = Deferred()
            await self._waiting
