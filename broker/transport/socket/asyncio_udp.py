"""UDP sockets over asyncio."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from twisted.internet.interfaces import IReactorFDSet

from broker.transport.socket.datagram_socket import DatagramSocket
from broker.transport.socket.datagram_transport import IDatagramPort, OnDatagrams
from broker.transport.socket.free_port import open_datagram_socket


class _AsyncioReads:
    """The part of `IReactorFDSet` that a `DatagramSocket` uses."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def addReader(self, reader: Any) -> None:
        self._loop.add_reader(reader.fileno(), reader.doRead)

    def removeReader(self, reader: Any) -> None:
        self._loop.remove_reader(reader.fileno())

    def addWriter(self, writer: Any) -> None:
        self._loop.add_writer(writer.fileno(), writer.doWrite)

    def removeWriter(self, writer: Any) -> None:
        self._loop.remove_writer(writer.fileno())


def open_port(
    loop: asyncio.AbstractEventLoop, host: str, on_datagrams: OnDatagrams
) -> IDatagramPort:
    """Open a port, of the address family of a host. Raises OSError."""
    reactor = cast(IReactorFDSet, _AsyncioReads(loop))
    return DatagramSocket(reactor, open_datagram_socket(host), on_datagrams)
