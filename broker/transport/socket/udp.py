"""One UDP port, shared by the stacks of a node (M8, M9, T30, T41)."""

from __future__ import annotations

import socket
from typing import Any, cast

from twisted.internet.error import CannotListenError

from broker.errors import Closed
from broker.transport.socket.datagram_demultiplexer import DatagramDemultiplexer
from broker.transport.socket.datagram_socket import DatagramSocket
from broker.transport.socket.datagram_transport import Address


class UdpSocket:
    """One UDP port, shared by the stacks of a node (M8, M9, T30, T41).

    `interface` is a numeric address, IPv4 or IPv6. With port 0 the system chooses a free one.
    """

    def __init__(self, reactor: Any, interface: str, port: int) -> None:
        self._reactor = reactor
        self._interface_and_port = (interface, port)
        self._family = socket.AF_INET
        self._started: tuple[DatagramSocket, DatagramDemultiplexer] | None = None

    @property
    def bound_address(self) -> tuple[str, int]:
        """Raises `Closed` if the port is not started."""
        address = self.socket.address
        return address[0], address[1]

    @property
    def family(self) -> socket.AddressFamily:
        return self._family

    @property
    def socket(self) -> DatagramSocket:
        """Raises `Closed` if the port is not started."""
        return self._require_started()[0]

    @property
    def users(self) -> DatagramDemultiplexer:
        """Raises `Closed` if the port is not started."""
        return self._require_started()[1]

    def start(self) -> None:
        """Raises Twisted's `CannotListenError`."""
        interface, port = self._interface_and_port
        try:
            self._family, address = resolve_address(interface, port)
            sock = socket.socket(self._family, socket.SOCK_DGRAM)
            try:
                if self._family == socket.AF_INET6:
                    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                sock.bind(address)
            except OSError:
                sock.close()
                raise
        except OSError as error:
            raise CannotListenError(interface, port, error) from None
        opened = DatagramSocket(self._reactor, sock, lambda batch: users.datagrams_received(batch))
        users = DatagramDemultiplexer(self._reactor, opened, describe=format_address)
        self._started = (opened, users)

    def resolve(self, host: str, port: int) -> Address:
        """Return a peer's address. Raises OSError unless `host` is numeric and of this family."""
        family, address = resolve_address(host, port)
        if family != self._family:
            raise OSError(f"{host} is not of the family of {self.bound_address[0]}")
        return cast(Address, address)

    def stop(self) -> None:
        """Stop the ports of the named stacks too; the untagged user stops before."""
        if self._started is not None:
            opened, users = self._started
            users.stop()
            opened.close()
            self._started = None

    def _require_started(self) -> tuple[DatagramSocket, DatagramDemultiplexer]:
        if self._started is None:
            raise Closed("the UDP port is not started")
        return self._started


def format_address(address: Address) -> str:
    host, port = cast(tuple[Any, ...], address)[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def resolve_address(host: str, port: int) -> tuple[socket.AddressFamily, Any]:
    """Return family and address of a numeric host; "" stands for all interfaces. Raises OSError."""
    flags = socket.AI_NUMERICHOST | socket.AI_PASSIVE
    try:
        found = socket.getaddrinfo(host or "0.0.0.0", port, type=socket.SOCK_DGRAM, flags=flags)
    except socket.gaierror:
        raise OSError(f"{host} is not an IP address") from None
    return found[0][0], found[0][4]
