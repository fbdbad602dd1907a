"""A TCP proxy between a client and its node that can be cut."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator


class Proxy:
    """Passes bytes on in a thread of its own, so that it serves clients under every loop.

    `port` is where it listens; `accepted` counts connections. With `cut_after`, each connection
    is cut when so many bytes have passed, wherever in a frame that is.
    """

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
        """Cut all connections there are."""
        self._loop.call_soon_threadsafe(self._cut_all)

    def cut_after(self, *sizes: int) -> None:
        """Cut the next connections, one after another, after so many bytes each."""
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
        room = [self._cuts.pop(0) if self._cuts else 1 << 60]
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
        except ConnectionError:
            writer.transport.abort()
            return
        ends = (writer, back)
        self._writers.update(ends)
        try:
            await asyncio.gather(
                self._pump(reader, back, room, ends), self._pump(there, writer, room, ends)
            )
        finally:
            self._writers.difference_update(ends)
            for end in ends:
                end.transport.abort()

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        room: list[int],
        ends: tuple[asyncio.StreamWriter, asyncio.StreamWriter],
    ) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data[: room[0]])
                await writer.drain()
                room[0] -= len(data)
                if room[0] <= 0:
                    break
        for end in ends:
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
    """A port whose connections are never made: its queue is full and nobody accepts."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        waiting = []
        try:
            for _ in range(4):
                one = socket.socket()
                one.setblocking(False)
                one.connect_ex(("127.0.0.1", port))
                waiting.append(one)
            yield port
        finally:
            for one in waiting:
                one.close()
