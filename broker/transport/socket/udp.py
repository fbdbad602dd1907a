"""The socket channel over UDP: one port that accepts and dials (M8, M9, T30, T41)."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable
from typing import Any, ClassVar, cast

from twisted.internet.defer import Deferred
from twisted.internet.error import CannotListenError
from twisted.logger import Logger

from broker.errors import Closed
from broker.transport.arq.settings import ArqSettings
from broker.transport.socket.contract import DEFAULT_MAX_FRAME, ISocketChannel
from broker.transport.socket.datagram_endpoint import Address, DatagramEndpoint
from broker.transport.socket.datagram_socket import DatagramSocket


class UdpPort:
    """One UDP socket and its connections, each with the properties of TCP (M8, M9, T30, T41).

    `interface` is a numeric address, IPv4 or IPv6. With port 0 the system chooses a free one.
    `on_connect` sets the receiver of each accepted channel, at once or soon.
    """

    log = Logger()
    _has_warned: ClassVar[bool] = False

    def __init__(
        self,
        reactor: Any,
        interface: str,
        port: int,
        on_connect: Callable[[ISocketChannel], None],
        settings: ArqSettings = ArqSettings(),  # noqa: B008  # frozen
        max_frame: int = DEFAULT_MAX_FRAME,
    ) -> None:
        self._reactor = reactor
        self._interface_and_port = (interface, port)
        self._on_connect = on_connect
        self._settings = settings
        self._max_frame = max_frame
        self._family = socket.AF_INET
        self._socket: DatagramSocket | None = None
        self._endpoint: DatagramEndpoint | None = None

    @property
    def bound_address(self) -> tuple[str, int]:
        """Raises `Closed` if the port is not started."""
        address = self._require_started()[0].address
        return address[0], address[1]

    @property
    def family(self) -> socket.AddressFamily:
        return self._family

    @property
    def endpoint(self) -> DatagramEndpoint:
        """Raises `Closed` if the port is not started."""
        return self._require_started()[1]

    @property
    def dropped(self) -> int:
        """Datagrams that the system did not accept."""
        return self._require_started()[0].dropped

    def start(self) -> None:
        """Raises Twisted's `CannotListenError`."""
        interface, port = self._interface_and_port
        try:
            self._family, address = _resolve_address(interface, port)
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
        self._socket = DatagramSocket(self._reactor, sock, self._received)
        self._endpoint = DatagramEndpoint(
            *(self._reactor, self._socket, self._on_connect, self._settings),
            *(secrets.token_bytes, self._max_frame, format_address),
        )
        self._limit_window(self._socket, self._endpoint)

    def connect(self, host: str, port: int) -> Deferred[ISocketChannel]:
        """Return a connection to a numeric address of this port's family.

        It fails with Twisted's `TimeoutError` or `ConnectionRefusedError`, with `VersionMismatch`,
        or with OSError for an invalid address. It can be cancelled.
        """
        _, endpoint = self._require_started()
        result: Deferred[ISocketChannel]
        try:
            family, address = _resolve_address(host, port)
            if family != self._family:
                raise OSError(f"{host} is not of the family of {self.bound_address[0]}")
            result = endpoint.connect(address)
        except OSError:
            result = Deferred()
            result.errback()
        return result

    def stop(self) -> None:
        if self._socket is not None and self._endpoint is not None:
            self._endpoint.stop()
            self._socket.close()
            self._socket = self._endpoint = None

    def _require_started(self) -> tuple[DatagramSocket, DatagramEndpoint]:
        if self._socket is None or self._endpoint is None:
            raise Closed("the UDP port is not started")
        return self._socket, self._endpoint

    def _received(self, batch: Any) -> None:
        if self._endpoint is not None:
            self._endpoint.datagrams_received(batch)

    def _limit_window(self, sock: DatagramSocket, endpoint: DatagramEndpoint) -> None:
        room = sock.capacity(self._settings.datagram_bytes)
        if room >= endpoint.window:
            return
        endpoint.window = max(room, 4)
        if not UdpPort._has_warned:
            UdpPort._has_warned = True
            self.log.warn(
                "the system gives a UDP socket only {bytes} bytes: windows are {room} datagrams"
                " instead of {window} (see net.core.rmem_max)",
                bytes=sock.receive_buffer,
                room=endpoint.window,
                window=self._settings.window,
            )


def format_address(address: Address) -> str:
    host, port = cast(tuple[Any, ...], address)[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _resolve_address(host: str, port: int) -> tuple[socket.AddressFamily, Any]:
    flags = socket.AI_NUMERICHOST | socket.AI_PASSIVE
    try:
        found = socket.getaddrinfo(host or "0.0.0.0", port, type=socket.SOCK_DGRAM, flags=flags)
    except socket.gaierror:
        raise OSError(f"{host} is not an IP address") from None
    return found[0][0], found[0][4]
