"""Connections of an attacker, over raw sockets, from any loopback address."""

from __future__ import annotations

import asyncio
import contextlib
import resource
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Final

from tests.system.node_process import PATIENCE

#: On Linux each address of 127.0.0.0/8 is local. Bystanders use 127.0.0.1.
ATTACKER: Final = "127.0.0.66"
_AT_ONCE: Final = 50


class Connection(asyncio.Protocol):
    """A connection that sends given bytes, and stores all that it receives."""

    def __init__(self) -> None:
        self.received = b""
        self.is_closed = False
        """True if the node has closed it."""
        self._has_received = asyncio.Event()
        self._ended = asyncio.get_running_loop().create_future()

    @classmethod
    async def open(cls, port: int, data: bytes = b"", host: str = ATTACKER) -> Connection:
        """`host` is the local address."""
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(cls, "127.0.0.1", port, local_addr=(host, 0))
        if data:
            connection.send(data)
        return connection

    def send(self, data: bytes) -> None:
        self._transport.write(data)

    async def await_bytes(self) -> None:
        """Return when the node has sent anything."""
        async with asyncio.timeout(PATIENCE):
            await self._has_received.wait()

    async def read_to_end(self) -> bytes:
        """Return all that the node has sent when it has closed the connection."""
        async with asyncio.timeout(PATIENCE):
            await asyncio.shield(self._ended)
        return self.received

    @staticmethod
    async def await_closed(connections: Sequence[Connection], count: int) -> None:
        """Return when the node has closed so many."""
        async with asyncio.timeout(PATIENCE):
            while sum(each.is_closed for each in connections) < count:
                ends = [each._ended for each in connections if not each.is_closed]
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)

    def abort(self) -> None:
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data
        self._has_received.set()

    def connection_lost(self, error: Exception | None) -> None:
        self.is_closed = True
        if not self._ended.done():
            self._ended.set_result(None)


@contextlib.asynccontextmanager
async def open_many(
    port: int, count: int, data: bytes = b"", hosts: Sequence[str] = (ATTACKER,)
) -> AsyncIterator[list[Connection]]:
    """Connections from `hosts` in turn that all send `data` and nothing else.

    Those that the node resets before this process knows them are left out.
    """
    slots = asyncio.Semaphore(_AT_ONCE)
    opened: list[Connection] = []

    async def open_one(host: str) -> None:
        async with slots:
            with contextlib.suppress(ConnectionResetError):
                opened.append(await Connection.open(port, data, host))

    try:
        await asyncio.gather(*(open_one(hosts[number % len(hosts)]) for number in range(count)))
        yield opened
    finally:
        for each in opened:
            each.abort()


@contextlib.contextmanager
def more_files(count: int) -> Iterator[None]:
    """Raise this process's limit of open files; processes that it starts meanwhile inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(count, hard)), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
