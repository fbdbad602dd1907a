"""Outgoing connections to other nodes, over Twisted endpoints or UDP."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, NoReturn

from twisted.internet.defer import Deferred, fail
from twisted.internet.endpoints import HostnameEndpoint, clientFromString
from twisted.internet.interfaces import IProtocolFactory
from twisted.python.failure import Failure

from broker.cluster.connection_error import to_connection_error
from broker.cluster.descriptor import Endpoint
from broker.cluster.host_name import resolve_host
from broker.cluster.node_certificate import NodeCertificate, load_certificate
from broker.config import Settings
from broker.config.key_file import read_key
from broker.config.network import NetworkSettings
from broker.errors import NotConnected
from broker.transport.arq.handshake import NO_SECRET, LinkSecret
from broker.transport.arq.udp_port import UdpPort
from broker.transport.socket import ISocketChannel
from broker.transport.socket.tcp import TcpChannelFactory

#: Seconds.
CONNECT_TIMEOUT = 5.0


class TwistedDialler:
    """Dials TCP from a reactor, and UDP from the node's own port."""

    def __init__(
        self,
        reactor: Any,
        max_frame: int,
        certificates: NodeCertificate | None = None,
        own_host: str = "",
        udp_secret: LinkSecret = NO_SECRET,
    ) -> None:
        """TCP connections come from the address `own_host`; empty: the system's choice."""
        self._own_address = (own_host, 0) if own_host else None
        self._reactor = reactor
        self.certificate = certificates
        """None: no TLS."""
        self._max_frame = max_frame
        self.udp: UdpPort | None = None
        self.udp_secret = udp_secret

    def dial(self, endpoint: Endpoint, transport: str) -> Deferred[ISocketChannel]:
        if transport == "udp":
            if self.udp is None:
                return fail(NotConnected("this node does not listen by UDP"))
            return self._dial_udp(self.udp, endpoint)
        return self._connect(
            HostnameEndpoint(
                self._reactor, endpoint.host, endpoint.port, CONNECT_TIMEOUT, self._own_address
            )
        )

    def accepting_factory(self, on_connect: Callable[[ISocketChannel], None]) -> IProtocolFactory:
        """Return the factory of the connections to a listening port."""
        return self._make_factory(on_connect, dials=False)

    def dial_string(self, endpoint: str) -> Deferred[ISocketChannel]:
        return self._connect(clientFromString(self._reactor, endpoint))

    def resolve(self, host: str, family: socket.AddressFamily) -> Deferred[str]:
        """Return an IP address of a host. Fails with `BrokerError`."""
        return resolve_host(self._reactor, host, family).addErrback(_raise_connection_error)

    def _dial_udp(self, port: UdpPort, endpoint: Endpoint) -> Deferred[ISocketChannel]:
        host = resolve_host(self._reactor, endpoint.host, port.family)
        connected = host.addCallback(lambda found: port.connect(found, endpoint.port))
        return connected.addErrback(_raise_connection_error)

    def _connect(self, endpoint: Any) -> Deferred[ISocketChannel]:
        channel: Deferred[ISocketChannel] = Deferred(lambda _: connecting.cancel())

        def failed(failure: Any) -> None:
            channel.errback(to_connection_error(failure.value))

        connecting = endpoint.connect(self._make_factory(channel.callback, dials=True))
        connecting.addErrback(failed)
        return channel

    def _make_factory(
        self, on_connect: Callable[[ISocketChannel], None], *, dials: bool
    ) -> IProtocolFactory:
        certificates = self.certificate
        factory: IProtocolFactory = TcpChannelFactory(
            on_connect, self._max_frame, certified=certificates is not None
        )
        if certificates is not None:
            factory = certificates.wrap_in_tls(factory, self._reactor, dials=dials)
        return factory


def _raise_connection_error(failure: Failure) -> NoReturn:
    failure.trap(Exception)
    raise to_connection_error(failure.value) from None


def build_dialler(
    settings: Settings,
    reactor: Any,
    own_host: str = "",
    certificate: NodeCertificate | None = None,
) -> TwistedDialler:
    """Load the certificate unless it is given. Raises `ConfigurationError` for unusable
    certificates or an unusable key."""
    certificate = certificate or load_certificate(settings)
    return TwistedDialler(
        *(reactor, settings.limits.max_frame_bytes, certificate, own_host),
        read_link_secret(settings.network),
    )


def read_link_secret(network: NetworkSettings) -> LinkSecret:
    """Return the secret of links over UDP. Raises `ConfigurationError`."""
    if network.key_file is None:
        return NO_SECRET
    return LinkSecret(read_key(network.key_file), network.allow_unauthenticated_udp)
