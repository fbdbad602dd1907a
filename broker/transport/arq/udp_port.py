"""Connections with the properties of TCP over one UDP port (M8, M9, T30, T41)."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable
from typing import Any, ClassVar

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from broker.errors import Closed
from broker.transport.arq.connection_endpoint import ConnectionEndpoint
from broker.transport.arq.handshake import NO_SECRET, LinkSecret
from broker.transport.arq.settings import ArqSettings
from broker.transport.socket.contract import DEFAULT_MAX_FRAME, ISocketChannel
from broker.transport.socket.datagram_socket import DatagramSocket
from broker.transport.socket.udp import UdpSocket, format_address


class UdpPort:
    """Connections over one UDP port, each with the properties of TCP (M8, M9, T30, T41).

    Other stacks may open ports of their own on `udp`. `on_connect` sets the receiver of each
    accepted channel, at once or soon.
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
        secret: LinkSecret = NO_SECRET,
    ) -> None:
        self.udp = UdpSocket(reactor, interface, port)
        self._reactor = reactor
        self._on_connect = on_connect
        self._settings = settings
        self._max_frame = max_frame
        self._secret = secret
        self._endpoint: ConnectionEndpoint | None = None

    @property
    def bound_address(self) -> tuple[str, int]:
        """Raises `Closed` if the port is not started."""
        return self.udp.bound_address

    @property
    def family(self) -> socket.AddressFamily:
        return self.udp.family

    @property
    def endpoint(self) -> ConnectionEndpoint:
        """Raises `Closed` if the port is not started."""
        if self._endpoint is None:
            raise Closed("the UDP port is not started")
        return self._endpoint

    @property
    def dropped(self) -> int:
        """Datagrams that the system did not accept."""
        return self.udp.socket.dropped

    def start(self) -> None:
        """Raises Twisted's `CannotListenError`."""
        self.udp.start()
        endpoint = self._endpoint = ConnectionEndpoint(
            *(self._reactor, self.udp.socket, self._on_connect, self._settings),
            *(secrets.token_bytes, self._max_frame, format_address, self._secret),
        )
        self._limit_window(self.udp.socket, endpoint)
        self.udp.users.set_untagged_user(endpoint.datagrams_received)

    def connect(self, host: str, port: int) -> Deferred[ISocketChannel]:
        """Return a connection to a numeric address of this port's family.

        It fails with Twisted's `TimeoutError` or `ConnectionRefusedError`, with `VersionMismatch`,
        or with OSError for an invalid address. It can be cancelled.
        """
        endpoint = self.endpoint
        result: Deferred[ISocketChannel]
        try:
            result = endpoint.connect(self.udp.resolve(host, port))
        except OSError:
            result = Deferred()
            result.errback()
        return result

    def stop(self) -> None:
        if self._endpoint is not None:
            self._endpoint.stop()
            self.udp.stop()
            self._endpoint = None

    def _limit_window(self, sock: DatagramSocket, endpoint: ConnectionEndpoint) -> None:
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
