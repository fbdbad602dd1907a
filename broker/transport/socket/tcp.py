"""The socket channel over Twisted's stream transports: TCP, TLS, UNIX sockets.

Any endpoint works: `serverFromString(reactor, "tls:...").listen(TcpChannelFactory(on_connect))`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol as Structure
from typing import cast

from cryptography.x509.oid import NameOID
from OpenSSL import SSL
from OpenSSL.crypto import X509
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IAddress, IPushProducer, ISSLTransport, ITCPTransport
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from broker.transport.socket.contract import DEFAULT_MAX_FRAME, ISocketChannel
from broker.transport.socket.loopback import is_loopback_host
from broker.transport.socket.stream import StreamChannel
from broker.transport.socket.tls_binding import EXPORTER, der_of, server_binding


class _Transport(Structure):
    """None of Twisted's interfaces has all of these methods."""

    def getPeer(self) -> IAddress: ...
    def setTcpNoDelay(self, enabled: bool) -> None: ...
    def setTcpKeepAlive(self, enabled: bool) -> None: ...
    def registerProducer(self, producer: IPushProducer, streaming: bool) -> None: ...
    def unregisterProducer(self) -> None: ...
    def pauseProducing(self) -> None: ...
    def resumeProducing(self) -> None: ...
    def writeSequence(self, iovec: list[bytes]) -> None: ...
    def loseConnection(self) -> None: ...
    def abortConnection(self) -> None: ...


class _SecureTransport(Structure):
    def getPeerCertificate(self) -> X509 | None: ...
    def getHandle(self) -> SSL.Connection: ...


@implementer(IPushProducer)
class TcpSocketChannel(StreamChannel, Protocol):
    """A socket channel that is a Twisted protocol.

    It is its transport's streaming producer: `pauseProducing` concerns writing, `pause` reading.
    """

    def __init__(
        self,
        on_connect: Callable[[ISocketChannel], None],
        max_frame: int,
        certified: bool,
        peer: IAddress | None = None,
    ) -> None:
        """`peer` is the address of the other end; None: the transport's."""
        super().__init__(on_connect, max_frame)
        self._certified = certified
        self._peer = peer

    @property
    def _stream(self) -> _Transport:
        return cast(_Transport, self.transport)

    @property
    def certified_name(self) -> str:
        """The name from the TLS handshake, which ends before the first packet."""
        transport = cast(_SecureTransport, self.transport)
        certificate = transport.getPeerCertificate() if self._certified else None
        return "" if certificate is None else common_name(certificate)

    @property
    def binding_kind(self) -> str:
        return EXPORTER if self.secure else ""

    def binding_data(self, kind: str) -> bytes | None:
        if not self.secure:
            return None
        return server_binding(cast(_SecureTransport, self.transport).getHandle(), kind)

    def peer_certificate(self) -> bytes | None:
        if not self.secure:
            return None
        certificate = cast(_SecureTransport, self.transport).getPeerCertificate()
        return None if certificate is None else der_of(certificate.to_cryptography())

    def connectionMade(self) -> None:
        peer = self._peer or self._stream.getPeer()
        self.peer_description = _format_address(peer)
        self.secure = self._certified or ISSLTransport.providedBy(self.transport)
        # The bytes of a proxy's client crossed the way to the proxy too.
        ends = peer, self._stream.getPeer()
        self.confidential = self.secure or all(map(_is_on_this_machine, ends))
        # A UNIX socket claims to be a TCP transport, and refuses the options.
        over_ip = isinstance(peer, (IPv4Address, IPv6Address))
        if over_ip and ITCPTransport.providedBy(self.transport):
            self._stream.setTcpNoDelay(True)
            self._stream.setTcpKeepAlive(True)
        self._stream.registerProducer(self, True)
        self._connected(self._stream.writeSequence)

    dataReceived = StreamChannel._received

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        orderly = isinstance(reason.value, ConnectionDone)
        self._disconnected(None if orderly else _error_text(reason))

    def pauseProducing(self) -> None:
        self._writable_changed(False)

    def resumeProducing(self) -> None:
        self._writable_changed(True)

    def stopProducing(self) -> None:
        """Do nothing: `connectionLost` follows."""

    def _close_transport(self) -> None:
        # With a registered producer the transport would wait for its end.
        self._stream.unregisterProducer()
        self._stream.loseConnection()

    def _abort_transport(self) -> None:
        self._stream.abortConnection()

    def _set_reading(self, reading: bool) -> None:
        # In Twisted a transport is the producer of the bytes that it reads.
        if reading:
            self._stream.resumeProducing()
        else:
            self._stream.pauseProducing()


class TcpChannelFactory(Factory):
    """Create a channel for each connection, at either end.

    `on_connect` sets the receiver of each, at once or soon; nothing is read before. If `certified`,
    the transports are TLS, and both ends verify a certificate.
    """

    noisy = False

    def __init__(
        self,
        on_connect: Callable[[ISocketChannel], None],
        max_frame: int = DEFAULT_MAX_FRAME,
        *,
        certified: bool = False,
    ) -> None:
        self._on_connect = on_connect
        self._max_frame = max_frame
        self._certified = certified

    def buildProtocol(self, addr: IAddress | None) -> TcpSocketChannel:
        channel = TcpSocketChannel(self._on_connect, self._max_frame, self._certified, addr)
        channel.factory = self
        return channel


def _error_text(reason: Failure) -> str:
    """Return the error's text; OpenSSL's is a list of (library, function, reason)."""
    if isinstance(reason.value, SSL.Error) and reason.value.args:
        return "TLS: " + ", ".join(each[-1] for each in reason.value.args[0])
    return str(reason.getErrorMessage())


def common_name(certificate: X509) -> str:
    """Empty if there is none."""
    names = certificate.to_cryptography().subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else ""


def _is_on_this_machine(peer: IAddress) -> bool:
    return isinstance(peer, UNIXAddress) or (
        isinstance(peer, (IPv4Address, IPv6Address)) and is_loopback_host(peer.host)
    )


def _format_address(address: object) -> str:
    if isinstance(address, (IPv4Address, IPv6Address)):
        return f"{address.host}:{address.port}"
    return str(address)
