"""TCP relays between nodes. Each direction of each pair can be cut, stalled and refused."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable
from typing import Final

#: Sender and receiver.
Direction = tuple[str, str]
_READ: Final = 65536


class _Connection:
    def __init__(
        self, dialler: str, target: str, writers: tuple[asyncio.StreamWriter, ...]
    ) -> None:
        self.dialler, self.target, self.writers = dialler, target, writers

    def abort(self) -> None:
        for end in self.writers:
            end.transport.abort()


class Relays:
    """The ports belong to the loop that calls `start`."""

    def __init__(self, pids: Callable[[], dict[str, int]]) -> None:
        """`pids` identifies dialling nodes by their processes."""
        self._pids = pids
        self._servers: list[asyncio.Server] = []
        self._connections: set[_Connection] = set()
        self._stalled: set[Direction] = set()
        self._refused: set[Direction] = set()
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, name: str, port: int, target: int) -> None:
        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(self._pass(name, target, reader, writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        self._servers.append(await asyncio.start_server(accept, "127.0.0.1", port))

    async def stop(self) -> None:
        for server in self._servers:
            server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # ------------------------------------------------------------------ faults

    def cut(self, one: str, other: str) -> None:
        """New connections are accepted."""
        for connection in list(self._connections):
            if {connection.dialler, connection.target} == {one, other}:
                connection.abort()

    def half_open(self, one: str, other: str) -> None:
        """`other` has a silent connection."""
        for connection in list(self._connections):
            if {connection.dialler, connection.target} == {one, other}:
                self._stalled.add((one, other))
                connection.writers[connection.target == one].transport.abort()

    def stall(self, directions: Iterable[Direction]) -> None:
        self._stalled.update(directions)

    def refuse(self, directions: Iterable[Direction]) -> None:
        """Leave new connections unanswered, and stall the others."""
        self._refused.update(directions)
        self._stalled.update(directions)

    def heal(self, *, reset: bool = False) -> None:
        if reset:
            for connection in list(self._connections):
                pair = connection.dialler, connection.target
                if pair in self._stalled or pair[::-1] in self._stalled:
                    connection.abort()
        self._stalled.clear()
        self._refused.clear()
        self._changed.set()
        self._changed = asyncio.Event()

    # ------------------------------------------------------------------ connections

    async def _pass(
        self, name: str, target: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        port = writer.get_extra_info("peername")[1]
        dialler = find_owner(port, self._pids())
        while (dialler, name) in self._refused:
            await self._changed.wait()
        try:
            upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", target)
        except OSError:
            writer.transport.abort()
            return
        connection = _Connection(dialler, name, (writer, upstream_writer))
        self._connections.add(connection)
        try:
            await asyncio.gather(
                self._pump(reader, upstream_writer, (dialler, name)),
                self._pump(upstream_reader, writer, (name, dialler)),
            )
        finally:
            self._connections.discard(connection)
            connection.abort()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: Direction
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_READ):
                while direction in self._stalled:
                    await self._changed.wait()
                writer.write(data)
                await writer.drain()
            while direction in self._stalled:
                await self._changed.wait()
            # An end may be half-closed.
            if writer.can_write_eof():
                writer.write_eof()


def find_owner(port: int, pids: dict[str, int]) -> str:
    """Return an empty string for an unknown port."""
    inode = _inode_of(port)
    if inode:
        for name, pid in pids.items():
            with contextlib.suppress(OSError):
                for descriptor in os.scandir(f"/proc/{pid}/fd"):
                    with contextlib.suppress(OSError):
                        if os.readlink(descriptor.path) == f"socket:[{inode}]":
                            return name
    return ""


def _inode_of(port: int) -> str:
    local = f"0100007F:{port:04X}"
    with open("/proc/net/tcp") as table:
        for line in table:
            fields = line.split()
            if fields[1] == local:
                return fields[9]
    return ""
