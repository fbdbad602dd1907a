"""A mesh of nine nodes loses packets, and a router: what arrived at its leaves, and how.

Two roots, four routers and three leaves with 1, 2 and 2 parents. A tenth of all datagrams is
dropped, and halfway the router with the most leaves is killed. Run it with `./dev mesh` or
`python -m examples.mesh`; `--help` lists the options.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Collection
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.markup import escape

from broker.client.asyncio_face import AsyncioClient, connect
from broker.errors import BrokerError
from examples.demo.feed import Feed, generate_feed
from examples.mesh.figures import LeafFigures, take_sample
from examples.mesh.nodes import LEAVES, PARENTS, ROOTS, ROUTERS, MeshNodes
from examples.mesh.verdict import NOTES, Leaf, make_table
from examples.network.__main__ import Publications, publish, wait_for_arrival
from examples.network.subscribers import START, Subscriber
from examples.roaming.nodes import run_nodes

PUBLISHER: Final = ROOTS[0]
EVENTS: Final = 4_000
#: Events a second.
RATE: Final = 200.0
#: Share of the datagrams.
LOSS: Final = 0.1
#: Seconds between two samples of the leaves.
SAMPLE: Final = 0.25
#: Seconds for the last copies.
LAST_COPIES: Final = 1.0
LOOK: Final = 0.2


class MeshDemo:
    def __init__(self, feed: Feed, nodes: MeshNodes, rate: float, console: Console) -> None:
        self.feed = feed
        self.nodes = nodes
        self.rate = rate
        self.console = console
        self.done = Publications()
        everything = range(len(feed.items))
        self.leaves = [
            Leaf(Subscriber(each, "true()", everything), LeafFigures()) for each in LEAVES
        ]
        self._clients: dict[str, AsyncioClient] = {}
        self._began = time.monotonic()

    async def run(self) -> int:
        """Return the number of errors."""
        async with contextlib.AsyncExitStack() as stack:
            await self._start(stack)
            publisher = await stack.enter_async_context(
                connect(self.nodes[PUBLISHER].endpoint, client_id="feed")
            )
            for leaf in self.leaves:
                async with asyncio.timeout(START):
                    node = self.nodes[leaf.subscriber.node]
                    await leaf.subscriber.connect_and_subscribe(node.endpoint)
                stack.push_async_callback(leaf.subscriber.leave)
            async with self._sampling():
                count = len(self.feed.items)
                self.say(f"{count} events are published at {PUBLISHER}, {self.rate:g} a second")
                halfway = {count // 2: self._kill_router}
                await publish(publisher, self.feed, self.done, halfway, self.rate)
                self.say("all are published")
                await wait_for_arrival(self.done, [each.subscriber for each in self.leaves])
                self.say("all have arrived, or nothing more arrives")
                await asyncio.sleep(LAST_COPIES)
        return self._report()

    async def _start(self, stack: contextlib.AsyncExitStack) -> None:
        """Leaves start when the places at the roots are taken."""
        for names in ((*ROOTS, *ROUTERS), tuple(LEAVES)):
            running = stack.enter_context(contextlib.ExitStack())
            with self.console.status(f"{', '.join(names)} start"):
                running.enter_context(run_nodes([self.nodes[name] for name in names]))
                for name in names:
                    await self._wait_for_parents(name, stack)
            self.say(f"{', '.join(names)} have their parents")
        with self.console.status("the nodes find each other"):
            async with asyncio.timeout(START):
                await self._wait_for_members()

    async def _wait_for_parents(self, name: str, stack: contextlib.AsyncExitStack) -> None:
        client = await stack.enter_async_context(connect(self.nodes[name].endpoint))
        self._clients[name] = client
        await client.when_connected(START)
        try:
            async with asyncio.timeout(START):
                while len((await take_sample(client)).parents) != PARENTS[name]:
                    await asyncio.sleep(LOOK)
        except TimeoutError:
            count = PARENTS[name]
            raise TimeoutError(f"{name} has not found {count} parents in {START:g} s") from None

    async def _wait_for_members(self) -> None:
        for client in self._clients.values():
            while (await take_sample(client)).members != len(PARENTS):
                await asyncio.sleep(LOOK)

    # ------------------------------------------------------------------ while events are published

    @contextlib.asynccontextmanager
    async def _sampling(self) -> AsyncIterator[None]:
        await self._sample()
        sampling = asyncio.create_task(self._sample_always())
        try:
            yield
        finally:
            sampling.cancel()
            await asyncio.gather(sampling, return_exceptions=True)
        await self._sample()

    async def _sample_always(self) -> None:
        while True:
            await asyncio.sleep(SAMPLE)
            await self._sample()

    async def _sample(self) -> None:
        for leaf in self.leaves:
            leaf.figures.add(await take_sample(self._clients[leaf.subscriber.node]))

    async def _kill_router(self) -> None:
        await self._sample()
        by_leaf = {each.subscriber.node: each.figures.parents for each in self.leaves}
        killed = find_busiest_router(by_leaf.values())
        self.nodes[killed].kill()
        affected = ", ".join(leaf for leaf, parents in by_leaf.items() if killed in parents)
        self.say(f"[bold red]kill -9[/] of {killed}, a parent of {affected}")

    # ------------------------------------------------------------------ at the end

    def _report(self) -> int:
        sent = self.done.times()
        title = f"{len(sent)} events of {self.feed.name}, published at {PUBLISHER}"
        self.console.print(make_table(title, self.leaves, sent))
        for note in NOTES:
            self.console.print(note, highlight=False)
        refused = list(self.done.refused.values())
        for error in refused[:3]:
            self.console.print(f"refused {len(refused)}, for example: {error}", markup=False)
        return len(refused) + sum(each.count_errors(sent) for each in self.leaves)

    def say(self, text: str) -> None:
        self.console.print(f"{time.monotonic() - self._began:5.1f} s  {text}", highlight=False)


def find_busiest_router(parents_of_leaves: Collection[Collection[str]]) -> str:
    """Return the router with the most leaves; of several, one that is an only parent."""
    leaves = Counter(parent for parents in parents_of_leaves for parent in parents)
    only = {parent for parents in parents_of_leaves if len(parents) == 1 for parent in parents}
    return max(sorted(leaves), key=lambda parent: (leaves[parent], parent in only))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=EVENTS, help="number of events to publish")
    parser.add_argument("--rate", type=float, default=RATE, help="events a second")
    parser.add_argument(
        "--loss",
        type=float,
        default=LOSS,
        help="share of the datagrams that is dropped, from 0 to below 1",
    )
    parser.add_argument("--keep", type=Path, help="keep the nodes' data and logs in this folder")
    arguments = parser.parse_args()
    if arguments.events < 1 or arguments.rate <= 0 or not 0 <= arguments.loss < 1:
        parser.error("events and rate must be positive, and the loss from 0 to below 1")
    console = Console()
    # SIGTERM must end the nodes too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.ExitStack() as stack:
        if arguments.keep is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="xmlbroker-")))
        else:
            folder = arguments.keep.resolve()
        try:
            with console.status("generating the events"):
                # Each of these events fits into one datagram: as many are lost as datagrams.
                feed = generate_feed(arguments.events)
            nodes = MeshNodes(folder, arguments.loss)
            wrong = asyncio.run(MeshDemo(feed, nodes, arguments.rate, console).run())
        except KeyboardInterrupt:
            console.print("interrupted; the nodes are stopped")
            return 130
        except (BrokerError, OSError, TimeoutError) as error:
            text = str(error) or f"no result within {START:g} s"
            console.print(f"[bold red]{escape(text)}[/]; --keep FOLDER keeps the nodes' logs")
            wrong = 1
    if wrong == 0:
        console.print("[bold green]nothing lost, nothing twice, everything in order[/]")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
