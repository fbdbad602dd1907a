"""TLS for accepted connections, with handshakes in time slices.

An answer to a ClientHello costs some 0.2 ms with a key on a curve, and up to 5 ms with a long RSA
key. A stranger can ask for hundreds at once, before any other limit applies.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from twisted.internet.interfaces import IListeningPort, IProtocolFactory, IReactorTime
from twisted.internet.protocol import connectionDone
from twisted.logger import Logger
from twisted.protocols.tls import BufferingTLSTransport, TLSMemoryBIOFactory
from twisted.python.failure import Failure

from broker.sessions.time_slices import LOGIN_PAUSE_SECONDS, LOGIN_SLICE_SECONDS, TimeSlices

#: Bytes of a connection that wait for their turn; beyond them it is aborted.
MAX_WAITING: Final = 1 << 16


class PacedTlsFactory(TLSMemoryBIOFactory):
    """TLS at the listening end. Handshakes run in time slices, the first come first."""

    log = Logger()

    def __init__(
        self, context_factory: Any, wrapped_factory: IProtocolFactory, clock: IReactorTime
    ) -> None:
        super().__init__(context_factory, False, wrapped_factory, clock)
        self.protocol = _PacedTls
        self._waiting: deque[_PacedTls] = deque()
        self._slices = TimeSlices(
            *(clock, self._continue_next, self._log_failure),
            *(LOGIN_SLICE_SECONDS, LOGIN_PAUSE_SECONDS),
        )

    def continue_later(self, connection: _PacedTls) -> None:
        self._waiting.append(connection)
        self._slices.run_later()

    def _continue_next(self) -> bool:
        if self._waiting:
            connection = self._waiting.popleft()
            try:
                connection.continue_handshake()
            except Exception as error:
                # The others continue all the same.
                self._log_failure(error)
                connection.abortConnection()
        return bool(self._waiting)

    def _log_failure(self, error: Exception) -> None:
        self.log.failure("a TLS handshake failed", Failure(error))


class _PacedTls(BufferingTLSTransport):
    """One connection: its bytes wait for their turn until its handshake has ended."""

    factory: PacedTlsFactory
    _waiting_bytes = b""

    def dataReceived(self, data: bytes) -> None:
        if self._handshakeDone:
            super().dataReceived(data)
            return
        is_waiting = bool(self._waiting_bytes)
        self._waiting_bytes += data
        if len(self._waiting_bytes) > MAX_WAITING:
            self.abortConnection()
        elif not is_waiting:
            self.factory.continue_later(self)

    def continue_handshake(self) -> None:
        """Process the bytes that wait; of a connection that has ended there are none."""
        data, self._waiting_bytes = self._waiting_bytes, b""
        if data:
            super().dataReceived(data)

    def abortConnection(self) -> None:
        # OpenSSL would process them at the end of the connection.
        self._waiting_bytes = b""
        super().abortConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._waiting_bytes = b""
        super().connectionLost(reason)


class PacedTlsReactor:
    """A reactor for endpoints, whose TLS listeners are of `PacedTlsFactory`."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reactor, name)

    def listenSSL(
        self,
        port: int,
        factory: IProtocolFactory,
        contextFactory: Any,
        backlog: int = 50,
        interface: str = "",
    ) -> IListeningPort:
        secured = PacedTlsFactory(contextFactory, factory, self._reactor)
        listening: IListeningPort = self._reactor.listenTCP(port, secured, backlog, interface)
        return listening
