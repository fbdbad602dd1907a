"""A client receives half of a feed, its node is lost, and it gets the rest at another node.

Three nodes share an archive. The missed events come from the logs of other nodes, and from the
archive, by Spark if Java is installed. Run it with `./dev roaming` or `python -m examples.roaming`;
`--help` lists the options.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from broker.archive.archive import Archive
from broker.client.asyncio_face import AsyncioClient, connect
from broker.errors import BrokerError
from broker.event.place import Place
from examples.demo.feed import Feed, load_feed
from examples.network.__main__ import Publications, read_network, sample_feed
from examples.network.subscribers import START
from examples.roaming.nodes import RoamingNode, create_nodes, run_nodes
from examples.roaming.roaming_client import RoamingClient

#: Twentieths of the feed published before the client leaves, before its node is lost, and before it
#: returns. The rest arrives live.
LEAVES, LOST, BACK, ALL = 10, 14, 19, 20
#: A log holds about this part of the feed, but not less than the smallest log.
LOG_PART = 6
LEAST_LOG = 1 << 20
#: Envelope and place of an event in the log, in bytes.
ENVELOPE = 1000
#: Parts of a log between waits for the archive. Otherwise retention would remove events before they
#: are archived; replicas have half of a log.
WAVES = 4
#: Seconds without progress after which missing events are given up.
PATIENCE = 150.0
LOOK = 0.1


class RoamingDemo:
    def __init__(self, feed: Feed, nodes: list[RoamingNode], folder: Path, console: Console):
        self.feed = feed
        self.nodes = nodes
        self.console = console
        self.done = Publications()
        self.roaming = RoamingClient(folder / "client")
        self.archive = Archive.open(str(folder / "archive"))
        self.last: dict[str, Place] = {}
        """Last published place of each origin."""
        self.recovery: dict[str, Any] = {}
        """Of the node to which the client returned."""

    async def run(self) -> None:
        north, south, west = self.nodes
        say = self.console.print
        async with contextlib.AsyncExitStack() as stack:
            with self.console.status("three nodes start, and find each other"):
                async with asyncio.timeout(START):
                    await self._wait_for_cluster()
            # The publisher continues at the second node.
            publisher = await stack.enter_async_context(
                connect(north.endpoint, south.endpoint, client_id="feed")
            )
            await publisher.when_connected(START)
            stack.push_async_callback(self.roaming.leave)
            progress = stack.enter_context(self._progress())
            await self.roaming.connect_and_subscribe(north.endpoint)
            await self._publish(publisher, 0, LEAVES)
            await self._wait_for_client()
            await self.roaming.leave()
            say(f"the client leaves {north.name} with {len(self.roaming.arrivals.events)} events")
            await self._publish(publisher, LEAVES, LOST)
            losing = asyncio.create_task(self._lose_node(north))
            await self._publish(publisher, LOST, BACK)
            await losing
            say(f"the client comes back at {west.name}, as another process")
            await self.roaming.connect_and_subscribe(west.endpoint)
            await self._wait_for_client()
            await self._publish(publisher, BACK, ALL)
            await self._wait_for_client()
            assert self.roaming.client is not None
            async with asyncio.timeout(START):
                self.recovery = await read_recoveries(self.roaming.client)
            progress.stop()

    async def _wait_for_cluster(self) -> None:
        for node in self.nodes:
            async with connect(node.endpoint) as client:
                await client.when_connected(START)
                while True:
                    members = (await read_network(client)).get("members", ())
                    if sum(each["reachable"] for each in members) == len(self.nodes):
                        break
                    await asyncio.sleep(LOOK)

    async def _publish(self, publisher: AsyncioClient, begin: int, end: int) -> None:
        """Publish no faster than the archive stores the events."""
        count = len(self.feed.items)
        wave = max(1, count // (LOG_PART * WAVES))
        stop = count * end // ALL
        for first in range(count * begin // ALL, stop, wave):
            async with asyncio.TaskGroup() as tasks:
                for index in range(first, min(first + wave, stop)):
                    tasks.create_task(self._publish_one(publisher, index))
            await self._wait_for_archive()

    async def _wait_for_archive(self) -> None:
        """A lost node's neighbour archives its replica."""
        loop = asyncio.get_running_loop()
        until = loop.time() + PATIENCE
        while loop.time() < until:
            state = await asyncio.to_thread(self.archive.state)
            # No notification exists.
            if all(state.covered_upto(o, (0, 0)) >= each.mark for o, each in self.last.items()):
                return
            await asyncio.sleep(LOOK)
        raise TimeoutError(f"the archive does not have all events after {PATIENCE:g} s")

    async def _publish_one(self, publisher: AsyncioClient, index: int) -> None:
        item = self.feed.items[index]
        try:
            receipt = await publisher.publish(item.stream, item.payload, item.event_type)
        except BrokerError as error:
            self.done.refused[index] = error
            return
        self.done.receipts[index] = receipt
        if receipt.place is not None:
            known = self.last.get(receipt.place.origin, receipt.place)
            self.last[receipt.place.origin] = max(known, receipt.place, key=lambda p: p.mark)

    async def _lose_node(self, node: RoamingNode) -> None:
        """Lose a node while events are being published."""
        safe = len(self.done.receipts)
        while len(self.done.receipts) == safe:
            await asyncio.sleep(0)
        node.lose_machine()
        self.console.print(
            f"[bold red]{node.name} is lost[/] for good, with its disk, when "
            f"{len(self.done.receipts)} events were safe"
        )

    async def _wait_for_client(self) -> None:
        """End also without progress."""
        loop = asyncio.get_running_loop()
        moved, before = loop.time(), -1
        while loop.time() - moved < PATIENCE:
            came = len(self.roaming.arrivals.events)
            if came >= len(self.done.receipts) and self.roaming.has_processed(
                [*self.last.values()]
            ):
                return
            if came != before:
                moved, before = loop.time(), came
            await asyncio.sleep(LOOK)

    @contextlib.contextmanager
    def _progress(self) -> Iterator[Progress]:
        progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
        )
        count = len(self.feed.items)
        bars = {
            progress.add_task("published, safe at two nodes", total=count): self.done.receipts,
            progress.add_task("received", total=count): self.roaming.arrivals.events,
        }

        async def watch() -> None:
            while True:
                for bar, what in bars.items():
                    progress.update(bar, completed=len(what))
                await asyncio.sleep(LOOK)

        with progress:
            watching = asyncio.create_task(watch())
            try:
                yield progress
            finally:
                watching.cancel()


async def read_recoveries(client: AsyncioClient) -> dict[str, Any]:
    """Return the status, with the replay engine if one ran."""
    while True:
        status: dict[str, Any] = (await client.ask("status"))["recovery"]
        if not status["replays"]["processes"] or "engine" in status["replays"]:
            return status
        await asyncio.sleep(LOOK)


def report(demo: RoamingDemo) -> int:
    """Return the number of errors."""
    roaming, done = demo.roaming, demo.done
    expected = [receipt.event_id for receipt in done.receipts.values()]
    arrivals = roaming.arrivals
    found = demo.recovery["recoveries"]["events"]
    bad = (
        *(arrivals.missing(expected), arrivals.duplicates),
        *(arrivals.unwanted(expected), arrivals.out_of_order),
    )
    table = Table(
        title=f"{len(expected)} events of {demo.feed.name}",
        box=box.SIMPLE,
        pad_edge=False,
    )
    table.add_column("events")
    table.add_column("events", justify="right")
    replays = demo.recovery["replays"]
    engine = f" ({replays['engine']})" if "engine" in replays else ""
    for what, count in (
        ("published", len(expected)),
        ("received live", len(roaming.live)),
        ("recovered from logs", found["log"] + found["former"] + found["logs"]),
        (f"recovered from the archive{engine}", found["archive"]),
        *zip(("missing", "twice", "wrong", "out of order"), bad, strict=True),
    ):
        table.add_row(what, str(count))
    demo.console.print(table)
    for notice in replays["notices"]:
        demo.console.print(f"the replay process says: {notice}", markup=False)
    for gap in roaming.gaps[:3]:
        demo.console.print(f"reported gap: {gap}", markup=False)
    for error in list(done.refused.values())[:3]:
        demo.console.print(f"refused {len(done.refused)}, for example: {error}", markup=False)
    return sum(bad) + len(done.refused) + len(roaming.gaps)


def log_bytes(feed: Feed) -> int:
    whole = sum(len(item.payload) + ENVELOPE for item in feed.items)
    return max(LEAST_LOG, whole // LOG_PART)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=int, help="number of events to publish")
    parser.add_argument("--keep", type=Path, help="keep the nodes' data and logs in this folder")
    arguments = parser.parse_args()
    console = Console()
    # SIGTERM must end the nodes too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.ExitStack() as stack:
        if arguments.keep is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="xmlbroker-")))
        else:
            folder = arguments.keep.resolve()
        with console.status("reading the events"):
            feed = load_feed(None)
            feed = sample_feed(feed, arguments.limit or len(feed.items))
        try:
            nodes = create_nodes(folder, log_bytes(feed))
            with run_nodes(nodes):
                demo = RoamingDemo(feed, nodes, folder, console)
                asyncio.run(demo.run())
                wrong = report(demo)
        except KeyboardInterrupt:
            console.print("interrupted; the nodes are stopped")
            return 130
        except (BrokerError, OSError, TimeoutError) as error:
            text = str(error) or f"a node did not answer in {START:g} s"
            console.print(f"[bold red]{escape(text)}[/]; --keep FOLDER keeps the nodes' logs")
            wrong = 1
    if wrong == 0:
        console.print("[bold green]nothing missing, nothing twice, everything in order[/]")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
