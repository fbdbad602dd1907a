"""A client takes half of a feed; its node and that disk are lost; it gets the rest at another node.

Three nodes share an archive. What the client missed comes from the logs of nodes that are left, and
from the archive, by Spark where Java is. Run it with `./dev roaming` or `python -m
examples.roaming`; `--help` shows what can be changed.
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
from examples.demo.feed import Feed, choose
from examples.network.__main__ import Publications, network_of, spread
from examples.network.subscribers import START
from examples.roaming.nodes import RoamingNode, running, three_nodes
from examples.roaming.rover import Rover

#: Parts of the feed, of twenty: what is published before the client leaves, before its node is
#: lost, and before it comes back. The rest comes to it live.
LEAVES, LOST, BACK, ALL = 10, 14, 19, 20
#: A log keeps about such a part of the feed, and not less than the smallest log.
LOG_PART = 6
LEAST_LOG = 1 << 20
#: Bytes that a log needs for an event besides its payload: the envelope, and the event's place.
ENVELOPE = 1000
#: Parts of a log that are published before the archive is waited for: or retention, in this haste,
#: takes what is not yet archived. Copies at a neighbour have half of a log.
WAVES = 4
#: Seconds without any progress after which what is still missing is given up.
PATIENCE = 150.0
#: Seconds between two looks at something of which nobody tells.
LOOK = 0.1


class Story:
    """The nodes, the client that roams, the one that publishes, and the progress of it all."""

    def __init__(self, feed: Feed, nodes: list[RoamingNode], folder: Path, console: Console):
        self.feed = feed
        self.nodes = nodes
        self.console = console
        self.done = Publications()
        self.rover = Rover(folder / "client")
        self.archive = Archive.open(str(folder / "archive"))
        self.last: dict[str, Place] = {}
        """By origin the last place in which something was published."""
        self.recovery: dict[str, Any] = {}
        """What the node where the client came back says of its recoveries."""

    async def happens(self) -> None:
        """All of it."""
        north, south, west = self.nodes
        say = self.console.print
        async with contextlib.AsyncExitStack() as stack:
            with self.console.status("three nodes start, and find each other"):
                async with asyncio.timeout(START):
                    await self._organised()
            # It goes on at the second node when the first one is lost.
            publisher = await stack.enter_async_context(
                connect(north.endpoint, south.endpoint, client_id="feed")
            )
            await publisher.when_connected(START)
            stack.push_async_callback(self.rover.leave)
            progress = stack.enter_context(self._progress())
            await self.rover.come(north.endpoint)
            await self._publish(publisher, 0, LEAVES)
            await self._all_came()
            await self.rover.leave()
            say(f"the client leaves {north.name} with {len(self.rover.arrivals.events)} events")
            await self._publish(publisher, LEAVES, LOST)
            losing = asyncio.create_task(self._lose(north))
            await self._publish(publisher, LOST, BACK)
            await losing
            say(f"the client comes back at {west.name}, as another process")
            await self.rover.come(west.endpoint)
            await self._all_came()
            await self._publish(publisher, BACK, ALL)
            await self._all_came()
            assert self.rover.client is not None
            async with asyncio.timeout(START):
                self.recovery = await recoveries(self.rover.client)
            progress.stop()

    async def _organised(self) -> None:
        for node in self.nodes:
            async with connect(node.endpoint) as client:
                await client.when_connected(START)
                while True:
                    members = (await network_of(client)).get("members", ())
                    if sum(each["reachable"] for each in members) == len(self.nodes):
                        break
                    await asyncio.sleep(LOOK)

    async def _publish(self, publisher: AsyncioClient, begin: int, end: int) -> None:
        """Publish some parts of the feed, no faster than the archive takes it."""
        count = len(self.feed.items)
        wave = max(1, count // (LOG_PART * WAVES))
        stop = count * end // ALL
        for first in range(count * begin // ALL, stop, wave):
            async with asyncio.TaskGroup() as tasks:
                for index in range(first, min(first + wave, stop)):
                    tasks.create_task(self._publish_one(publisher, index))
            await self._archived()

    async def _archived(self) -> None:
        """Wait until all is in the archive: what a lost node had its neighbour brings there."""
        loop = asyncio.get_running_loop()
        until = loop.time() + PATIENCE
        while loop.time() < until:
            state = await asyncio.to_thread(self.archive.state)
            # Nobody tells: it is looked at.
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

    async def _lose(self, node: RoamingNode) -> None:
        """In the middle of what is being published."""
        safe = len(self.done.receipts)
        while len(self.done.receipts) == safe:
            await asyncio.sleep(0)
        node.lose()
        self.console.print(
            f"[bold red]{node.name} is lost[/] for good, with its disk, when "
            f"{len(self.done.receipts)} events were safe"
        )

    async def _all_came(self) -> None:
        """Wait until all that was published has come, or nothing has for long."""
        loop = asyncio.get_running_loop()
        moved, before = loop.time(), -1
        while loop.time() - moved < PATIENCE:
            came = len(self.rover.arrivals.events)
            if came >= len(self.done.receipts) and self.rover.has_passed([*self.last.values()]):
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
            progress.add_task("received", total=count): self.rover.arrivals.events,
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


async def recoveries(client: AsyncioClient) -> dict[str, Any]:
    """What a node says of its recoveries, and which engine replayed, if one did."""
    while True:
        said: dict[str, Any] = (await client.ask("status"))["recovery"]
        if not said["replays"]["processes"] or "engine" in said["replays"]:
            return said
        await asyncio.sleep(LOOK)


def report(story: Story) -> int:
    """What came, against what was published; the number of things that went wrong."""
    rover, done = story.rover, story.done
    wanted = [receipt.event_id for receipt in done.receipts.values()]
    arrivals = rover.arrivals
    found = story.recovery["recoveries"]["events"]
    bad = (
        *(arrivals.missing(wanted), arrivals.duplicates),
        *(arrivals.unwanted(wanted), arrivals.out_of_order),
    )
    table = Table(
        title=f"{len(wanted)} events of {story.feed.name}",
        box=box.SIMPLE,
        pad_edge=False,
    )
    table.add_column("published, received, and how")
    table.add_column("events", justify="right")
    replays = story.recovery["replays"]
    engine = f" ({replays['engine']})" if "engine" in replays else ""
    for what, count in (
        ("published", len(wanted)),
        ("received live", len(rover.live)),
        ("recovered from logs", found["log"] + found["former"] + found["logs"]),
        (f"recovered from the archive{engine}", found["archive"]),
        *zip(("missing", "twice", "wrong", "out of order"), bad, strict=True),
    ):
        table.add_row(what, str(count))
    story.console.print(table)
    for notice in replays["notices"]:
        story.console.print(f"the replay process says: {notice}", markup=False)
    for gap in rover.gaps[:3]:
        story.console.print(f"a gap was told: {gap}", markup=False)
    for error in list(done.refused.values())[:3]:
        story.console.print(f"refused {len(done.refused)}, for example: {error}", markup=False)
    return sum(bad) + len(done.refused) + len(rover.gaps)


def log_bytes(feed: Feed) -> int:
    """How much the nodes' logs keep."""
    whole = sum(len(item.payload) + ENVELOPE for item in feed.items)
    return max(LEAST_LOG, whole // LOG_PART)


def main() -> int:
    """The command line of the example."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=int, help="publish only so many events")
    parser.add_argument("--keep", type=Path, help="keep the nodes' data and logs in this folder")
    arguments = parser.parse_args()
    console = Console()
    # Whoever ends the example ends its nodes.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.ExitStack() as stack:
        if arguments.keep is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="xmlbroker-")))
        else:
            folder = arguments.keep.resolve()
        with console.status("reading the events"):
            feed = choose(None)
            feed = spread(feed, arguments.limit or len(feed.items))
        try:
            nodes = three_nodes(folder, log_bytes(feed))
            with running(nodes):
                story = Story(feed, nodes, folder, console)
                asyncio.run(story.happens())
                wrong = report(story)
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
