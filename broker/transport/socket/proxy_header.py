"""PROXY protocol, version 2: the address of a client behind a trusted proxy.

The header is below TLS, and its bytes come first. Twisted's `HAProxyWrappingFactory` does
not fit: it reports the connection before the header has come, accepts version 1, trusts any source
and breaks if a header comes in parts.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Any, Final

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.interfaces import IAddress, IProtocol, IProtocolFactory
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from broker.errors import BrokerError, Overloaded, PeerSilent, ProtocolError

#: Bytes: a proxy may append certificates' names and other fields, which are ignored.
MAX_HEADER: Final = 2048
#: Connections of proxies whose header has not come. The oldest gives way to a new one.
MAX_WAITING: Final = 1000
SIGNATURE: Final = b"\r\n\r\n\0\r\nQUIT\n"
#: Version and command, family and protocol, bytes that follow.
_FIXED: Final = struct.Struct(">12sBBH")
_LOCAL: Final = 0x20
_PROXY: Final = 0x21
#: Of streams: bytes of an IP address; none for UNIX sockets and unknown ones.
_ADDRESS_BYTES: Final = {0x11: 4, 0x21: 16, 0x31: 0, 0x00: 0}


@implementer(IProtocolFactory)
class ProxyHeaderFactory:
    """Connections of listed proxies begin with a header; those of other addresses do not.

    The wrapped factory gets the address in the header. With the command LOCAL, of a proxy's own
    checks, and for a client without an IP address it gets the proxy's.
    """

    def __init__(
        self,
        wrapped: IProtocolFactory,
        proxies: Sequence[IPv4Network | IPv6Network],
        timeout: float,
        refused: Callable[[str, BrokerError], object],
    ) -> None:
        """A header must come within `timeout` seconds. `refused` gets the proxy's address."""
        self.wrapped = wrapped
        self.timeout = timeout
        self.refused = refused
        self.waiting: dict[_ProxyHeader, None] = {}
        self._proxies = proxies

    def doStart(self) -> None:
        self.wrapped.doStart()

    def doStop(self) -> None:
        self.wrapped.doStop()

    def buildProtocol(self, addr: IAddress) -> IProtocol | None:
        if isinstance(addr, IPv4Address | IPv6Address) and self._is_proxy(addr.host):
            return _ProxyHeader(self, addr)
        return self.wrapped.buildProtocol(addr)

    def _is_proxy(self, host: str) -> bool:
        address = ip_address(host)
        mapped = getattr(address, "ipv4_mapped", None)
        return any((mapped or address) in network for network in self._proxies)


class _ProxyHeader(Protocol):
    """Reads the header, and leaves the connection to the protocol of the wrapped factory."""

    def __init__(self, owner: ProxyHeaderFactory, proxy: IPv4Address | IPv6Address) -> None:
        self._owner = owner
        self._proxy = proxy
        self._received = b""

    def connectionMade(self) -> None:
        owner, transport = self._owner, self._stream
        self._timeout = transport.reactor.callLater(
            owner.timeout, self._refuse, PeerSilent("no PROXY header arrived in time")
        )
        owner.waiting[self] = None
        if len(owner.waiting) > MAX_WAITING:
            next(iter(owner.waiting))._refuse(Overloaded("too many connections have no header"))

    def dataReceived(self, data: bytes) -> None:
        self._received += data
        try:
            header = _split_header(self._received)
            if header is not None:
                self._pass_on(_read_source(header) or self._proxy, self._received[len(header) :])
        except ProtocolError as error:
            self._refuse(error)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._end()

    def _pass_on(self, source: IAddress, rest: bytes) -> None:
        self._end()
        protocol = self._owner.wrapped.buildProtocol(source)
        transport = self._stream
        if protocol is None:
            transport.loseConnection()
            return
        # Nothing of this stays in the way of the bytes.
        transport.protocol = protocol
        protocol.makeConnection(transport)
        if rest:
            protocol.dataReceived(rest)

    def _refuse(self, error: BrokerError) -> None:
        self._end()
        self._owner.refused(f"{self._proxy.host}:{self._proxy.port}", error)
        self._stream.abortConnection()

    def _end(self) -> None:
        self._owner.waiting.pop(self, None)
        if self._timeout.active():
            self._timeout.cancel()

    @property
    def _stream(self) -> Any:
        """The transport: none of Twisted's interfaces has `protocol` and `reactor`."""
        return self.transport


def _split_header(received: bytes) -> bytes | None:
    """Return the whole header; None if bytes are missing. Raises `ProtocolError`."""
    if not received.startswith(SIGNATURE[: len(received)]):
        version_1 = received.startswith(b"PROXY"[: len(received)])
        reason = "version 1 is not supported" if version_1 else "there is none"
        raise ProtocolError(f"a listed proxy must send a PROXY header of version 2: {reason}")
    if len(received) < _FIXED.size:
        return None
    length = _FIXED.size + _FIXED.unpack_from(received)[3]
    if length > MAX_HEADER:
        raise ProtocolError(f"a PROXY header has {length} bytes, {MAX_HEADER} are allowed")
    return received[:length] if len(received) >= length else None


def _read_source(header: bytes) -> IPv4Address | IPv6Address | None:
    """Return the client's address; None if the header has none. Raises `ProtocolError`."""
    _, command, family, length = _FIXED.unpack_from(header)
    if command == _LOCAL:
        return None
    address_bytes = _ADDRESS_BYTES.get(family)
    if command != _PROXY or address_bytes is None:
        raise ProtocolError("a PROXY header has an unknown command or kind of address")
    if not address_bytes:
        return None
    # Addresses and ports of both ends; other fields may follow.
    if length < 2 * (address_bytes + 2):
        raise ProtocolError("a PROXY header is too short for its addresses")
    start = _FIXED.size
    host = ip_address(header[start : start + address_bytes])
    (port,) = struct.unpack_from(">H", header, start + 2 * address_bytes)
    kind = IPv4Address if address_bytes == 4 else IPv6Address
    return kind("TCP", str(host), port)


class HeaderReactor:
    """A reactor for endpoints whose connections have a layer below their own TLS."""

    def __init__(self, reactor: Any, wrap: Callable[[IProtocolFactory], IProtocolFactory]) -> None:
        self._reactor = reactor
        self._wrap = wrap

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reactor, name)

    def listenTCP(
        self, port: int, factory: IProtocolFactory, backlog: int = 50, interface: str = ""
    ) -> Any:
        return self._reactor.listenTCP(port, self._wrap(factory), backlog, interface)

    def adoptStreamPort(self, fileno: int, family: int, factory: IProtocolFactory) -> Any:
        return self._reactor.adoptStreamPort(fileno, family, self._wrap(factory))
