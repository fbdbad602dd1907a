"""A UDP socket on the reactor.

Twisted's `listenUDP` calls a protocol for each datagram and drops datagrams that can not be written
at once. One batch for each turn costs a third less and keeps datagrams together.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, cast

from twisted.internet.interfaces import IReactorFDSet, IReadDescriptor, IWriteDescriptor
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from broker.transport.socket.datagram_transport import MAX_DATAGRAM, Address, OnDatagrams

#: Datagrams in one read; then the reactor serves others.
_BATCH: Final = 256
#: Datagrams that wait for the kernel; more are dropped.
_MAX_QUEUED: Final = 4096
#: Each way.
BUFFER_BYTES: Final = 4 * 1024 * 1024
#: Bytes beyond the length of a datagram.
_KERNEL_OVERHEAD: Final = 1024


@implementer(IReadDescriptor, IWriteDescriptor)
class DatagramSocket:
    log = Logger()

    def __init__(
        self,
        reactor: IReactorFDSet,
        sock: socket.socket,
        on_datagrams: OnDatagrams,
    ) -> None:
        #: Datagrams not sent: the queue was full, or the kernel refused.
        self.dropped = 0
        self.last_error: OSError | None = None
        #: In bytes as the kernel counts them.
        self.receive_buffer = _enlarge_buffers(sock)
        self._reactor = reactor
        self._socket = sock
        self._on_datagrams = on_datagrams
        self._queued: deque[tuple[bytes, Address]] = deque()
        sock.setblocking(False)
        reactor.addReader(self)

    @property
    def address(self) -> Any:
        return self._socket.getsockname()

    def capacity(self, datagram_bytes: int) -> int:
        """Return the number of datagrams that fit into the receive buffer."""
        return self.receive_buffer // (datagram_bytes + _KERNEL_OVERHEAD)

    def send(self, datagrams: Sequence[bytes], address: Address) -> None:
        if self._queued:
            self._queue(datagrams, address)
            return
        send = self._socket.sendto
        for index, datagram in enumerate(datagrams):
            try:
                send(datagram, cast(Any, address))
            except BlockingIOError:
                self._queue(datagrams[index:], address)
                return
            except OSError as error:
                # Mostly an ICMP error about an earlier datagram.
                self.dropped += 1
                self.last_error = error

    def close(self) -> None:
        self._queued.clear()
        self._reactor.removeReader(self)
        self._reactor.removeWriter(self)
        self._socket.close()

    def fileno(self) -> int:
        """Return -1 after `close`."""
        return self._socket.fileno()

    def logPrefix(self) -> str:
        return "datagrams"

    def doRead(self) -> None:
        receive = self._socket.recvfrom
        batch: list[tuple[bytes, Any]] = []
        for _ in range(_BATCH):
            try:
                batch.append(receive(MAX_DATAGRAM))
            except BlockingIOError:
                break
            except OSError:
                continue  # error of an earlier datagram; reading clears it
        if batch:
            self._on_datagrams(batch)

    def doWrite(self) -> None:
        waiting, self._queued = self._queued, deque()
        while waiting:
            datagram, address = waiting.popleft()
            self.send([datagram], address)
            if self._queued:
                self._queued += waiting
                return
        self._reactor.removeWriter(self)

    def connectionLost(self, reason: Failure) -> None:
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
    # Linux returns twice the requested size, with its overhead.
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
