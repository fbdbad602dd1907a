"""Sockets for links on a reactor."""

from __future__ import annotations

from unittest.mock import Mock

from twisted.internet.address import IPv4Address
from twisted.trial.unittest import SynchronousTestCase

from broker.config import Settings
from broker.errors import NotConnected
from broker.streams.link_sockets import open_on_reactor
from broker.transport.stacks import Transport


class TcpSocketTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.reactor = Mock()
        self.port = self.reactor.listenTCP.return_value
        self.port.getHost.return_value = IPv4Address("TCP", "127.0.0.1", 8770)
        sockets = open_on_reactor(self.reactor, Settings())
        self.socket = sockets.open_connections("127.0.0.1", 0, Transport.TCP, lambda channel: None)

    def test_the_address_stays_when_the_reactor_has_stopped(self) -> None:
        # As a port of Twisted does without its socket.
        self.port.getHost.side_effect = AttributeError("socket")
        self.assertEqual(self.socket.address, ("127.0.0.1", 8770))

    def test_a_host_name_is_resolved_by_the_reactor(self) -> None:
        found = self.socket.resolve_name("a.example")
        self.assertNoResult(found)
        (receiver, host, _, kinds), _ = self.reactor.nameResolver.resolveHostName.call_args
        self.assertEqual((host, kinds), ("a.example", [IPv4Address]))
        receiver.addressResolved(IPv4Address("TCP", "10.0.0.1", 0))
        self.assertEqual(self.successResultOf(found), "10.0.0.1")
        unknown = self.socket.resolve_name("b.example")
        (receiver, *_), _ = self.reactor.nameResolver.resolveHostName.call_args
        receiver.resolutionComplete()
        self.assertIn("no address", self.failureResultOf(unknown, NotConnected).value.text)
        self.assertEqual(self.successResultOf(self.socket.resolve_name("10.0.0.2")), "10.0.0.2")
