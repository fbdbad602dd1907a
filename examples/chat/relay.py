"""TCP relays that can go silent: they then hold all bytes, as a lost radio link does."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Final

_CHUNK: Final = 65_536


class Relay:
    """Passes connections to a port on to another one of this machine."""

    def __init__(self, listener: socket.socket, target: int) -> None:
        """`listener` is bound."""
        self.port: int = listener.getsockname()[1]
        self._listener = listener
        self._target = target
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, sock=self._listener)

    def silence(self) -> None:
        """Hold what comes, and connect nothing. No end notices it but by the silence."""
        self._is_open.clear()

    def repair(self) -> None:
        self._is_open.set()

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._connect(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = [writer]
        try:
            await self._is_open.wait()
            if writer.is_closing():
                return
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
            ends.append(far_writer)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass_on(reader, far_writer))
                both.create_task(self._pass_on(far_reader, writer))
        except* (OSError, asyncio.IncompleteReadError):
            # Both ends see the closed connection.
            pass
        finally:
            for end in ends:
                end.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_CHUNK):
            await self._is_open.wait()
            writer.write(data)
            await writer.drain()
        await self._is_open.wait()
        with contextlib.suppress(OSError):
            writer.write_eof()


def bind_listener() -> socket.socket:
    """Return a socket on a free loopback port."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    return listener
