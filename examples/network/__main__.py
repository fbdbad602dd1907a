"""Nine nodes in three clusters: events cross all of them, and a gateway is killed meanwhile.

Run it with `./dev network` or `python -m examples.network`; `--help` lists the options.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from broker.client.asyncio_face import AsyncioClient, connect
from broker.client.received import Receipt
from broker.errors import BrokerError
from broker.event.event_id import EventId
from examples.demo.feed import Feed, load_feed
from examples.network.nodes import CLUSTERS, Nodes, cluster_of
from examples.network.subscribers import START, Subscriber

#: The last subscriber is durable.
PUBLISHER = "a1"
SUBSCRIBERS = ("c1", "p2", "c3", "p3")
#: Events published together, and events a second.
WAVE = 10
RATE = 200
#: Seconds without progress after which missing events are given up.
PATIENCE = 20.0
LOOK = 0.1


@attrs.define
class Publications:
    """Results by the item's index."""

    receipts: dict[int, Receipt] = attrs.field(factory=dict)
    sent: dict[int, float] = attrs.field(factory=dict)
    refused: dict[int, BrokerError] = attrs.field(factory=dict)

    def times(self) -> dict[EventId, float]:
        """Return the publication time of each durable event."""
        return {each.event_id: self.sent[index] for index, each in self.receipts.items()}


@attrs.define
class Timeline:
    """Times in seconds of the loop."""

    killed: str = ""
    killed_at: float = 0.0
    ended_at: float = 0.0


async def read_network(client: AsyncioClient) -> dict[str, Any]:
    status = await client.ask("status")
    network: dict[str, Any] = status["network"]
    return network


async def wait_until_linked(nodes: Nodes, stack: contextlib.AsyncExitStack) -> None:
    """Every node knows its cluster, and a path to all others."""
    for cluster, names in CLUSTERS.items():
        others = CLUSTERS.keys() - {cluster}
        for name in names:
            client = await stack.enter_async_context(connect(nodes[name].endpoint))
            await client.when_connected(START)
            while True:
                status = await read_network(client)
                members = {each["node"] for each in status.get("members", ()) if each["reachable"]}
                units = {each["unit"] for each in status.get("units", ()) if each["wants_known"]}
                if members == set(names) and units == others:
                    break
                await asyncio.sleep(LOOK)


async def publish(
    client: AsyncioClient,
    feed: Feed,
    done: Publications,
    at: dict[int, Callable[[], Any]],
    rate: float = RATE,
) -> None:
    """Publish at most `rate` events a second. Run the calls of `at` before the items of their
    indices."""
    loop = asyncio.get_running_loop()
    begin = loop.time()

    async def one(index: int) -> None:
        item = feed.items[index]
        try:
            done.receipts[index] = await client.publish(item.stream, item.payload, item.event_type)
        except BrokerError as error:
            done.refused[index] = error

    async with asyncio.TaskGroup() as tasks:
        for index in range(len(feed.items)):
            if index in at:
                await at[index]()
            done.sent[index] = loop.time()
            tasks.create_task(one(index))
            if index % WAVE == WAVE - 1:
                await asyncio.sleep(max(0.0, begin + (index + 1) / rate - loop.time()))


async def wait_for_arrival(done: Publications, subscribers: list[Subscriber]) -> None:
    """End also without progress."""
    loop = asyncio.get_running_loop()
    places = [receipt.place for receipt in done.receipts.values() if receipt.place]
    last = max(places, key=lambda place: place.mark)
    moved, before = loop.time(), [each.progress() for each in subscribers]
    while not all(each.has_processed(last) for each in subscribers):
        await asyncio.sleep(LOOK)
        now = [each.progress() for each in subscribers]
        if now != before:
            moved, before = loop.time(), now
        elif loop.time() - moved > PATIENCE:
            return


async def run_demo(feed: Feed, nodes: Nodes, console: Console) -> int:
    """Return the number of errors."""
    expected = feed.expected()
    subscribers = [
        Subscriber(node, query, indices, durable="example" if node == SUBSCRIBERS[-1] else "")
        for node, query, indices in zip(SUBSCRIBERS, feed.queries, expected, strict=True)
    ]
    durable = subscribers[-1]
    done, timeline = Publications(), Timeline()
    loop = asyncio.get_running_loop()
    async with contextlib.AsyncExitStack() as stack:
        with console.status("nine nodes start, and find each other"):
            async with asyncio.timeout(START):
                await wait_until_linked(nodes, stack)
        publisher = await stack.enter_async_context(
            connect(nodes[PUBLISHER].endpoint, client_id="feed")
        )
        for each in subscribers:
            async with asyncio.timeout(START):
                await each.connect_and_subscribe(nodes[each.node].endpoint)
            stack.push_async_callback(each.leave)
            console.print(f"{cluster_of(each.node)}/{each.node} subscribes to {escape(each.query)}")

        async def kill() -> None:
            timeline.killed = await find_exit_gateway(publisher)
            timeline.killed_at = loop.time()
            nodes[timeline.killed].kill()
            console.print(
                f"[bold red]kill -9[/] of {timeline.killed}, by which events left "
                f"{cluster_of(timeline.killed)}, with {len(done.receipts)} events durable"
            )

        async def leave() -> None:
            await durable.leave()
            durable.away = True
            console.print(f"the durable subscriber at {durable.node} leaves")

        async def come_back() -> None:
            console.print(f"the durable subscriber at {durable.node} comes back")
            await durable.connect_and_subscribe(nodes[durable.node].endpoint)

        count = len(feed.items)
        with console.status(f"{count} events are published at {PUBLISHER}"):
            happens = {count // 4: leave, count // 2: kill, 3 * count // 4: come_back}
            await publish(publisher, feed, done, happens)
            timeline.ended_at = loop.time()
            await wait_for_arrival(done, subscribers)
        console.print(
            f"events leave {cluster_of(PUBLISHER)} by {await find_exit_gateway(publisher)} now"
        )
    return report(feed, done, subscribers, timeline, console)


async def find_exit_gateway(client: AsyncioClient) -> str:
    """Return the gateway by which events leave the cluster."""
    units = (await read_network(client))["units"]
    return str(units[0]["next_hop"])


def report(
    feed: Feed,
    done: Publications,
    subscribers: list[Subscriber],
    timeline: Timeline,
    console: Console,
) -> int:
    """Return the number of errors."""
    table = Table(
        title=f"{len(done.receipts)} events of {feed.name}, published at {PUBLISHER}",
        box=box.SIMPLE,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for heading in (
        *("at", "matched", "arrived", "twice", "out of order", "missing", "wrong"),
        *("silent", "slowest"),
    ):
        first = heading == "at"
        table.add_column(heading, justify="left" if first else "right", no_wrap=first)
    wrong = 0
    sent = done.times()
    for each in subscribers:
        # Rejected events can not arrive.
        expected = [done.receipts[i].event_id for i in each.expected if i in done.receipts]
        arrived = each.arrivals
        bad = (
            *(arrived.duplicates, arrived.out_of_order),
            *(arrived.missing(expected), arrived.unwanted(expected)),
        )
        wrong += sum(bad)
        silence = slowest = "-"
        if not each.away:
            slowest = f"{arrived.slowest(sent):.2f}"
            if 2 * len(expected) > len(sent):
                silence = f"{arrived.longest_silence(timeline.killed_at, timeline.ended_at):.2f}"
        table.add_row(
            f"{cluster_of(each.node)}/{each.node}" + ("*" if each.away else ""),
            *map(str, (len(expected), len(arrived.events), *bad)),
            *(silence, slowest),
        )
    console.print(table)
    console.print(
        f"silent: the longest time (s) without an event after {timeline.killed} was killed, where "
        "most match; slowest: from publication to arrival; *: durable, away for half of the time"
    )
    for error in list(done.refused.values())[:3]:
        console.print(f"refused {len(done.refused)}, for example: {error}", markup=False)
    return wrong + len(done.refused)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=int, default=2_000, help="number of events to publish")
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
        nodes = Nodes(folder)
        try:
            with nodes:
                with console.status("reading the events"):
                    feed = sample_feed(load_feed(None), arguments.limit)
                wrong = asyncio.run(run_demo(feed, nodes, console))
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


def sample_feed(feed: Feed, limit: int) -> Feed:
    """Return items spread evenly."""
    step = max(1, len(feed.items) // limit)
    return attrs.evolve(feed, items=feed.items[::step][:limit])


if __name__ == "__main__":
    sys.exit(main())
