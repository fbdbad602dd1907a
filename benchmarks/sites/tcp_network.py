"""A network of sites over TCP on loopback, with relays that silence links, for one event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from itertools import permutations
from typing import Final

from twisted.internet.defer import Deferred

from broker.errors import NotConnected
from broker.testing.memory_network import MemoryNetwork, MemoryPort
from broker.transport.socket import ISocketChannel
from broker.transport.socket.asyncio_tcp import AsyncioClock, AsyncioSocketChannel

_HOST: Final = "127.0.0.1"
_PIECE: Final = 65_536


class LoopClock(AsyncioClock):
    """It begins with 0."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._begin = loop.time()

    def seconds(self) -> float:
        return super().seconds() - self._begin


class TcpNetwork:
    """As `MemoryNetwork`, for connections with a `source`. Call `open` first."""

    path = staticmethod(MemoryNetwork.path)

    def __init__(self) -> None:
        self._listening: dict[str, Callable[[ISocketChannel], None]] = {}
        self._ports: dict[tuple[str, str], int] = {}
        """Ports of the relays, by address and source."""
        self._gates: dict[tuple[str, bool], asyncio.Event] = {}
        """By path and direction; True: to the listener."""
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._channels: list[ISocketChannel] = []

    async def open(self, names: tuple[str, ...]) -> None:
        loop = asyncio.get_running_loop()
        for address, source in permutations(names, 2):
            for to_listener in (False, True):
                gate = self._gates[self.path(address, source), to_listener] = asyncio.Event()
                gate.set()
            server = await loop.create_server(
                lambda address=address, source=source: AsyncioSocketChannel(  # type: ignore[misc]
                    lambda channel: self._accept(address, source, channel)
                ),
                _HOST,
                0,
            )
            target: int = server.sockets[0].getsockname()[1]
            relay = await asyncio.start_server(self._relay_to(address, source, target), _HOST, 0)
            self._ports[address, source] = relay.sockets[0].getsockname()[1]
            self._servers += [server, relay]

    async def close(self) -> None:
        """Close all connections."""
        closed = NotConnected("the network is closed")
        for channel in self._channels:
            channel.abort(closed)
        for server in self._servers:
            server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # Transports close in the next turns of the loop.
        await asyncio.sleep(0.1)

    # ----------------------------------------------------------------- as MemoryNetwork

    def listen(self, address: str, on_connect: Callable[[ISocketChannel], None]) -> MemoryPort:
        self._listening[address] = on_connect
        return MemoryPort(lambda: self._listening.pop(address, None) and None)

    def connect(self, address: str, source: str) -> Deferred[ISocketChannel]:
        return Deferred.fromFuture(asyncio.ensure_future(self._connect(address, source)))

    def hold(self, path: str, *, to_listener: bool) -> None:
        self._gates[path, to_listener].clear()

    def release(self, path: str, *, to_listener: bool) -> None:
        self._gates[path, to_listener].set()

    async def _connect(self, address: str, source: str) -> ISocketChannel:
        _, channel = await asyncio.get_running_loop().create_connection(
            lambda: AsyncioSocketChannel(lambda channel: None),
            *(_HOST, self._ports[address, source]),
        )
        channel.peer_description = address
        self._channels.append(channel)
        return channel

    def _accept(self, address: str, source: str, channel: ISocketChannel) -> None:
        self._channels.append(channel)
        on_connect = self._listening.get(address)
        if on_connect is None:
            channel.abort(NotConnected(f"nobody listens at {address}"))
            return
        channel.peer_description = source
        on_connect(channel)

    # ----------------------------------------------------------------- relays

    def _relay_to(
        self, address: str, source: str, target: int
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]:
        path = self.path(address, source)
        there, back = self._gates[path, True], self._gates[path, False]

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await there.wait()
                await back.wait()
                target_reader, target_writer = await asyncio.open_connection(_HOST, target)
            except BaseException:
                writer.transport.abort()
                raise
            await asyncio.gather(
                _pump(reader, target_writer, there), _pump(target_reader, writer, back)
            )

        def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(relay(reader, writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        return accepted


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event
) -> None:
    """Pass bytes and the end of a stream on while the gate is open."""
    try:
        with contextlib.suppress(OSError):
            while data := await reader.read(_PIECE):
                await gate.wait()
                writer.write(data)
                await writer.drain()
        await gate.wait()
    finally:
        writer.transport.abort()
