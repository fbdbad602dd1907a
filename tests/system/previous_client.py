"""A client of another version: `python -m tests.system.previous_client ENDPOINT NAME`, run in the
tree of that version.

It subscribes durably. For each input line `FIRST LAST` it publishes these flights. Output lines are
JSON: a kind (`published`, `received` or `gap`), and an EventId as text.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import broker
from broker.client.asyncio_face import AsyncioClient, connect
from broker.client.subscription import Subscription
from tests.system.node_process import PATIENCE, ROOT
from tests.system.traffic import publish


class PreviousClient:
    """The test's side of the process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._lines: list[tuple[str, str]] = []
        self._changed = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, endpoint: str, name: str, tree: Path) -> PreviousClient:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.system.previous_client", endpoint, name),
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=PIPE,
            stdout=PIPE,
        )
        client = cls(process)
        await client._wait_for("ready", 1)
        return client

    def ids(self, kind: str) -> list[str]:
        """An empty text stands for each `gap`."""
        return [text for each, text in self._lines if each == kind]

    async def publish(self, first: int, last: int) -> None:
        done = len(self.ids("done"))
        assert self._process.stdin is not None
        self._process.stdin.write(b"%d %d\n" % (first, last))
        await self._wait_for("done", done + 1)

    async def until_received(self, expected: set[str]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not expected <= set(self.ids("received")):
                await self._wait_for_line()

    async def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert await self._process.wait() == 0
        await self._reading

    async def _wait_for(self, kind: str, count: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while len(self.ids(kind)) < count:
                await self._wait_for_line()

    async def _wait_for_line(self) -> None:
        assert not self._reading.done(), "the client has ended"
        self._changed.clear()
        await self._changed.wait()

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            kind, text = json.loads(line)
            self._lines.append((kind, text))
            self._changed.set()
        self._changed.set()


def write_line(kind: str, text: object = "") -> None:
    print(json.dumps([kind, str(text)]), flush=True)


async def read(subscription: Subscription) -> None:
    async for event in subscription:
        write_line("received", event.event_id)


async def publish_on_request(client: AsyncioClient) -> None:
    while line := await asyncio.to_thread(sys.stdin.readline):
        first, last = map(int, line.split())
        await client.when_connected(PATIENCE)
        for receipt in await publish(client, first, last):
            write_line("published", receipt.event_id)
        write_line("done")


async def main(endpoint: str, name: str) -> None:
    assert Path(broker.__path__[0]).parent == Path.cwd()
    async with connect(endpoint, client_id=name) as client:
        await client.when_connected(PATIENCE)
        subscription = await client.subscribe(
            "true()", "roaming.>", durable="d", on_gap=lambda _: write_line("gap")
        )
        reading = asyncio.create_task(read(subscription))
        write_line("ready")
        await publish_on_request(client)
        reading.cancel()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
