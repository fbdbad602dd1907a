"""Connections of an attacker, over raw sockets, from any loopback address."""

from __future__ import annotations

import asyncio
import contextlib
import resource
from collections.abc import AsyncIterator, Iterator
from typing import Final

from tests.system.node_process import PATIENCE

#: On Linux each address of 127.0.0.0/8 is local. Bystanders use 127.0.0.1.
ATTACKER: Final = "127.0.0.66"
#: The kernel delays connections beyond the backlog.
BACKLOG: Final = "tcp:port={port}:interface=127.0.0.1:backlog=1024"
_AT_ONCE: Final = 50


class Connection:
    """A connection that sends given bytes, and may wait for its end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, port: int, data: bytes = b"", host: str = ATTACKER) -> Connection:
        """`host` is the local address."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(host, 0))
        if data:
            writer.write(data)
        return cls(reader, writer)

    async def read_to_end(self) -> bytes:
        """Return all that the node sends until it closes the connection."""
        received = b""
        async with asyncio.timeout(PATIENCE):
            with contextlib.suppress(ConnectionError):
                while data := await self.reader.read(1 << 16):
                    received += data
        return received

    @property
    def is_closed(self) -> bool:
        """True if the node's end has arrived."""
        return self.reader.at_eof() or self.reader.exception() is not None

    def abort(self) -> None:
        self.writer.transport.abort()


@contextlib.asynccontextmanager
async def open_many(
    port: int, count: int, data: bytes = b"", host: str = ATTACKER
) -> AsyncIterator[list[Connection]]:
    """Connections that all send `data` and nothing else."""
    slots = asyncio.Semaphore(_AT_ONCE)
    opened: list[Connection] = []

    async def open_one() -> None:
        async with slots:
            opened.append(await Connection.open(port, data, host))

    try:
        await asyncio.gather(*(open_one() for _ in range(count)))
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
