"""A UDP socket on the reactor: many datagrams a read, a bounded queue when the kernel's is full.

Twisted's own `listenUDP` calls a protocol for each datagram and drops what can not be written
at once; a batch for each turn costs a third less and keeps what came together together.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from twisted.internet.interfaces import IReactorFDSet, IReadDescriptor, IWriteDescriptor
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from broker.transport.arq.settings import MAX_DATAGRAM
from broker.transport.socket.datagram_endpoint import Address

#: Datagrams in one read; then others on the reactor have their turn.
_BATCH: Final = 256
#: Datagrams that wait for the kernel; more are dropped, which correction mends.
_MAX_QUEUED: Final = 4096
#: Bytes of kernel buffer asked for, each way.
BUFFER_BYTES: Final = 4 * 1024 * 1024
#: What the kernel counts for a datagram beyond its length, on the receiving side.
_KERNEL_OVERHEAD: Final = 1024


@implementer(IReadDescriptor, IWriteDescriptor)
class DatagramSocket:
    """Calls `on_datagrams` with all datagrams of one read, and where each came from."""

    log = Logger()

    def __init__(
        self,
        reactor: IReactorFDSet,
        sock: socket.socket,
        on_datagrams: Callable[[Sequence[tuple[bytes, Any]]], None],
    ) -> None:
        #: Not sent: the queue was full, or the kernel refused (an unreachable network, a filter).
        self.dropped = 0
        self.last_error: OSError | None = None
        """Why the system did not take the newest of those."""
        #: The kernel's receive buffer, in bytes as the kernel counts them.
        self.receive_buffer = _enlarge_buffers(sock)
        self._reactor = reactor
        self._socket = sock
        self._on_datagrams = on_datagrams
        self._queued: deque[tuple[bytes, Address]] = deque()
        sock.setblocking(False)
        reactor.addReader(self)

    @property
    def address(self) -> Any:
        """What the socket is bound to."""
        return self._socket.getsockname()

    def capacity(self, datagram_bytes: int) -> int:
        """How many datagrams of that size fit into the receive buffer."""
        return self.receive_buffer // (datagram_bytes + _KERNEL_OVERHEAD)

    def send(self, datagrams: Sequence[bytes], address: Address) -> None:
        """Send datagrams to an address; what the kernel does not take now waits."""
        if self._queued:
            self._queue(datagrams, address)
            return
        send = self._socket.sendto
        for place, datagram in enumerate(datagrams):
            try:
                send(datagram, cast(Any, address))
            except BlockingIOError:
                self._queue(datagrams[place:], address)
                return
            except OSError as error:
                # Mostly an ICMP error about an earlier one: to correction all loss is alike.
                self.dropped += 1
                self.last_error = error

    def close(self) -> None:
        """Drop what waits, and close."""
        self._queued.clear()
        self._reactor.removeReader(self)
        self._reactor.removeWriter(self)
        self._socket.close()

    # ----------------------------------------------------------------- called by the reactor

    def fileno(self) -> int:
        """The socket's number; -1 once it is closed."""
        return self._socket.fileno()

    def logPrefix(self) -> str:
        """What the reactor's logs call it."""
        return "datagrams"

    def doRead(self) -> None:
        """Read what is there, up to a batch."""
        receive = self._socket.recvfrom
        batch: list[tuple[bytes, Any]] = []
        for _ in range(_BATCH):
            try:
                batch.append(receive(MAX_DATAGRAM))
            except BlockingIOError:
                break
            except OSError:
                continue  # an error that an earlier datagram caused; reading it clears it
        if batch:
            self._on_datagrams(batch)

    def doWrite(self) -> None:
        """The kernel has room again."""
        waiting, self._queued = self._queued, deque()
        while waiting:
            datagram, address = waiting.popleft()
            self.send([datagram], address)
            if self._queued:
                self._queued += waiting
                return
        self._reactor.removeWriter(self)

    def connectionLost(self, reason: Failure) -> None:
        """The reactor found the socket unusable, or stops."""
        self._queued.clear()
        self._socket.close()

    def _queue(self, datagrams: Sequence[bytes], address: Address) -> None:
        room = _MAX_QUEUED - len(self._queued)
        self._queued.extend((datagram, address) for datagram in datagrams[:room])
        self.dropped += max(0, len(datagrams) - room)
        self._reactor.addWriter(self)


def _enlarge_buffers(sock: socket.socket) -> int:
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        sock.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
    # Linux says twice what it was asked for, since it counts its own overhead too.
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
