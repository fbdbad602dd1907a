"""The socket channel over asyncio, and asyncio's clock.

`await loop.create_connection(lambda: AsyncioSocketChannel(on_connect), host, port)`
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import cast

from broker.transport.socket.contract import DEFAULT_MAX_FRAME, ISocketChannel
from broker.transport.socket.loopback import is_loopback_host
from broker.transport.socket.stream import StreamChannel


class AsyncioSocketChannel(StreamChannel, asyncio.Protocol):
    def __init__(
        self, on_connect: Callable[[ISocketChannel], None], max_frame: int = DEFAULT_MAX_FRAME
    ) -> None:
        super().__init__(on_connect, max_frame)
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio itself sets TCP_NODELAY."""
        # asyncio derives the TLS transport from private classes.
        stream = self._transport = cast(asyncio.Transport, transport)
        self.secure = transport.get_extra_info("ssl_object") is not None
        peer = transport.get_extra_info("peername")
        self.peer_description = _format_address(peer)
        sock = transport.get_extra_info("socket")
        over_ip = sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6)
        self.confidential = self.secure or not over_ip or is_loopback_host(peer[0])
        if over_ip:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._connected(stream.writelines)

    @property
    def binding_kind(self) -> str:
        return "tls-server-end-point" if self.secure else ""

    def binding_data(self, kind: str) -> bytes | None:
        if self._transport is None or not self.secure or kind != self.binding_kind:
            return None
        certificate = self._transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        # Clients without TLS do not need its library.
        from broker.transport.socket.tls_binding import end_point_data

        return end_point_data(certificate)

    data_received = StreamChannel._received

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._disconnected(None if exc is None else str(exc))

    def pause_writing(self) -> None:
        self._writable_changed(False)

    def resume_writing(self) -> None:
        self._writable_changed(True)

    def _close_transport(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _abort_transport(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _set_reading(self, reading: bool) -> None:
        if self._transport is None:
            return
        if reading:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()


class AsyncioCall:
    def __init__(
        self, loop: asyncio.AbstractEventLoop, delay: float, call: Callable[[], object]
    ) -> None:
        self._call: Callable[[], object] | None = call
        self._handle = loop.call_later(max(0.0, delay), self._fire)

    def active(self) -> bool:
        return self._call is not None

    def cancel(self) -> None:
        self._call = None
        self._handle.cancel()

    def _fire(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call()


class AsyncioClock:
    """Monotonic time and calls of an event loop, for `StackDriver`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def seconds(self) -> float:
        return self._loop.time()

    def callLater(  # the name is Twisted's
        self, delay: float, f: Callable[..., object], /, *args: object
    ) -> AsyncioCall:
        return AsyncioCall(self._loop, delay, lambda: f(*args))


def _format_address(peername: object) -> str:
    if isinstance(peername, tuple) and len(peername) >= 2:
        return f"{peername[0]}:{peername[1]}"
    return str(peername or "")
