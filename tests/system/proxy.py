"""A TCP proxy between a client and its node that can be cut."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator


class Proxy:
    """A proxy in a thread of its own, so it works with any event loop."""

    def __init__(self, target: int) -> None:
        self.port = 0
        self.accepted = 0
        self._cuts: list[int] = []
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._writers: set[asyncio.StreamWriter] = set()
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def cut(self) -> None:
        self._loop.call_soon_threadsafe(self._cut_all)

    def cut_after(self, *sizes: int) -> None:
        """Cut the next connections after these numbers of bytes, anywhere in a frame."""
        self._loop.call_soon_threadsafe(self._cuts.extend, sizes)

    def _cut_all(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._listening.set()
        async with server:
            await self._stop.wait()
            self._cut_all()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        remaining = [self._cuts.pop(0) if self._cuts else 1 << 60]
        try:
            upstream_reader, upstream_writer = await asyncio.open_connection(
                "127.0.0.1", self._target
            )
        except ConnectionError:
            writer.transport.abort()
            return
        writers = (writer, upstream_writer)
        self._writers.update(writers)
        try:
            await asyncio.gather(
                self._pump(reader, upstream_writer, remaining, writers),
                self._pump(upstream_reader, writer, remaining, writers),
            )
        finally:
            self._writers.difference_update(writers)
            for end in writers:
                end.transport.abort()

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        remaining: list[int],
        writers: tuple[asyncio.StreamWriter, asyncio.StreamWriter],
    ) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data[: remaining[0]])
                await writer.drain()
                remaining[0] -= len(data)
                if remaining[0] <= 0:
                    break
        for end in writers:
            end.close()

    def __enter__(self) -> Proxy:
        self._thread.start()
        assert self._listening.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(lambda: self._stop.set())
        self._thread.join(30)


@contextlib.contextmanager
def unanswering_port() -> Iterator[int]:
    """The port's accept queue is full."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        waiting = []
        try:
            for _ in range(4):
                client = socket.socket()
                client.setblocking(False)
                client.connect_ex(("127.0.0.1", port))
                waiting.append(client)
            yield port
        finally:
            for client in waiting:
                client.close()
