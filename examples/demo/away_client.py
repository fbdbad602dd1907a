"""Second part: a client that was away recovers from the archive after its node is lost."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path
from typing import Any

import attrs
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from broker.client.asyncio_face import AsyncioClient, connect
from broker.client.subscription import Subscription
from broker.event.event_id import EventId
from examples.demo.node_process import NodeProcess

NAME = "away"
#: Without progress; Spark starts slowly.
PATIENCE = 150.0
LOOK = 0.1


@attrs.define
class AwayClient:
    """Receives a part of the feed, and leaves."""

    state: Path
    """Folder of its position, for its next process."""
    part: int
    """Number of events before it leaves."""
    got: Counter[EventId] = attrs.field(factory=Counter)

    def connect(self, node: NodeProcess) -> AsyncioClient:
        return connect(node.endpoint, client_id=NAME, state=self.state)

    async def subscribe_part(self, node: NodeProcess) -> asyncio.Task[None]:
        """The task ends when the client has left."""
        client = self.connect(node)
        subscription = await client.subscribe(durable=NAME)
        return asyncio.create_task(self._take_part(client, subscription))

    async def _take_part(self, client: AsyncioClient, subscription: Subscription) -> None:
        async with client:
            async for event in subscription:
                self.got[event.event_id] += 1
                if self.got.total() >= self.part:
                    subscription.processed(event)
                    return

    async def recover_rest(
        self, node: NodeProcess, published: set[EventId], console: Console
    ) -> dict[str, Any]:
        """Return the node's recovery status."""
        before = self.got.total()
        async with self.connect(node) as client:
            subscription = await client.subscribe(durable=NAME)
            with Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                console=console,
                transient=True,
            ) as progress:
                bar = progress.add_task("recovered", total=len(published) - before)

                async def take() -> None:
                    async for event in subscription:
                        self.got[event.event_id] += 1
                        progress.update(bar, completed=self.got.total() - before)

                taking = asyncio.create_task(take())
                await self._until_all(published)
                taking.cancel()
            async with asyncio.timeout(PATIENCE):
                return await read_recoveries(client)

    async def _until_all(self, published: set[EventId]) -> None:
        moved, count = time.monotonic(), -1
        while published - self.got.keys() and time.monotonic() - moved < PATIENCE:
            if self.got.total() != count:
                moved, count = time.monotonic(), self.got.total()
            await asyncio.sleep(LOOK)


async def read_recoveries(client: AsyncioClient) -> dict[str, Any]:
    """Return the status, with the replay engine if one ran."""
    while True:
        status: dict[str, Any] = (await client.ask("status"))["recovery"]
        if not status["replays"]["processes"] or "engine" in status["replays"]:
            return status
        await asyncio.sleep(LOOK)


def lose_first_node(
    away: AwayClient,
    first: NodeProcess,
    second: NodeProcess,
    published: set[EventId],
    console: Console,
) -> int:
    """Return the number of errors."""
    left = away.got.total()
    first.lose_disk()
    console.print(
        "\nthe node and its log are lost; only the archive is left. A client that left with "
        f"{left} events returns at a new node"
    )
    second.start()
    begin = time.monotonic()
    status = asyncio.run(away.recover_rest(second, published, console))
    seconds = time.monotonic() - begin
    missing = len(published - away.got.keys())
    twice = away.got.total() - len(away.got)
    wrong = len(away.got.keys() - published)
    replays = status["replays"]
    console.print(
        f"recovered {status['recoveries']['events']['archive']} events from the archive by "
        f"{replays.get('engine', 'nothing')} in {seconds:.1f} s: {missing} missing, {twice} twice, "
        f"{wrong} wrong"
    )
    for notice in replays["notices"]:
        console.print(f"the replay process says: {notice}", markup=False)
    return missing + twice + wrong
