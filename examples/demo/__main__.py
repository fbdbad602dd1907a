"""Publish real events, filter them by content, kill the node halfway, and lose nothing.

Then the node is lost for good, and a client that was away gets the missed events from the archive.
Run it with `./dev demo`; `--help` lists the options.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import attrs
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Table

from broker.client.asyncio_face import AsyncioClient, connect
from broker.client.received import Receipt
from broker.client.subscription import Subscription
from broker.errors import BrokerError
from broker.event.event_id import EventId
from broker.event.place import Place
from examples.demo.away_client import AwayClient, lose_first_node
from examples.demo.feed import Feed, load_feed
from examples.demo.node_process import NodeProcess

WINDOW = 2_000
#: Seconds without progress after which missing events are given up.
PATIENCE = 20.0
#: Seconds for the first start: in a new checkout it compiles all modules.
START = 60.0


@attrs.define
class Subscriber:
    """One durable subscription, and its received events."""

    query: str
    client: AsyncioClient
    subscription: Subscription
    expected: list[int]
    got: Counter[EventId] = attrs.field(factory=Counter)

    async def read(self) -> None:
        async for event in self.subscription:
            self.got[event.event_id] += 1

    def has_processed(self, place: Place) -> bool:
        """Matching or not, so that duplicates and wrong deliveries are seen too."""
        return self.subscription.position.covers(place)


@attrs.define
class Publications:
    """Results by the item's index."""

    receipts: dict[int, Receipt] = attrs.field(factory=dict)
    refused: dict[int, BrokerError] = attrs.field(factory=dict)


async def publish(
    client: AsyncioClient, feed: Feed, node: NodeProcess, done: Publications, console: Console
) -> None:
    """Kill the node halfway, and restart it."""
    room = asyncio.Semaphore(WINDOW)

    async def one(index: int) -> None:
        item = feed.items[index]
        try:
            done.receipts[index] = await client.publish(item.stream, item.payload, item.event_type)
        except BrokerError as error:
            done.refused[index] = error
        finally:
            room.release()

    async with asyncio.TaskGroup() as tasks:
        for index in range(len(feed.items)):
            await room.acquire()
            tasks.create_task(one(index))
            if index == len(feed.items) // 2:
                node.kill()
                console.print(
                    f"[bold red]kill -9[/] with {len(done.receipts)} events acknowledged and "
                    f"{client.unacknowledged} pending; restarting the node"
                )
                node.start()


async def wait_for_delivery(done: Publications, subscribers: list[Subscriber]) -> None:
    """End also without progress."""
    places = [receipt.place for receipt in done.receipts.values() if receipt.place]
    last = max(places, key=lambda place: place.mark)
    moved, positions = time.monotonic(), [s.subscription.position for s in subscribers]
    while not all(s.has_processed(last) for s in subscribers):
        await asyncio.sleep(0.05)
        now = [s.subscription.position for s in subscribers]
        if now != positions:
            moved, positions = time.monotonic(), now
        elif time.monotonic() - moved > PATIENCE:
            return


async def update_progress(
    progress: Progress,
    task: TaskID,
    done: Publications,
    bars: list[TaskID],
    subscribers: list[Subscriber],
) -> None:
    while True:
        progress.update(task, completed=len(done.receipts) + len(done.refused))
        for bar, subscriber in zip(bars, subscribers, strict=True):
            progress.update(bar, completed=subscriber.got.total())
        await asyncio.sleep(0.1)


async def run_demo(
    feed: Feed, node: NodeProcess, done: Publications, away: AwayClient, console: Console
) -> int:
    """Return the number of errors."""
    expected = feed.expected()
    node.start()
    async with contextlib.AsyncExitStack() as stack:
        publisher = await stack.enter_async_context(connect(node.endpoint, client_id="feed"))
        await publisher.when_connected(START)
        subscribers = []
        for number, query in enumerate(feed.queries, 1):
            client = await stack.enter_async_context(
                connect(node.endpoint, client_id=f"subscriber-{number}")
            )
            subscription = await client.subscribe(query, durable="demo")
            subscribers.append(Subscriber(query, client, subscription, expected[number - 1]))
        progress = stack.enter_context(
            Progress(
                TextColumn("{task.description:38.38}"),
                BarColumn(),
                MofNCompleteColumn(),
                console=console,
                transient=True,
            )
        )
        leaving = await away.subscribe_part(node)
        readers = [asyncio.create_task(s.read()) for s in subscribers]
        bars = [progress.add_task(escape(s.query), total=len(s.expected)) for s in subscribers]
        task = progress.add_task("published and durable", total=len(feed.items))
        watching = asyncio.create_task(update_progress(progress, task, done, bars, subscribers))
        begin = time.monotonic()
        await publish(publisher, feed, node, done, progress.console)
        # Rejected events can not be delivered.
        for subscriber in subscribers:
            subscriber.expected = [i for i in subscriber.expected if i in done.receipts]
        await wait_for_delivery(done, subscribers)
        seconds = time.monotonic() - begin
        async with asyncio.timeout(PATIENCE):
            await leaving
        for background in (*readers, watching):
            background.cancel()
    return report(feed, done, subscribers, seconds, console)


def report(
    feed: Feed,
    done: Publications,
    subscribers: list[Subscriber],
    seconds: float,
    console: Console,
) -> int:
    """Return the number of errors."""
    table = Table(title=f"{len(feed.items)} events of {feed.name}, node killed halfway")
    for heading in ("subscriber's query", "lxml says", "delivered", "lost", "duplicated", "wrong"):
        table.add_column(heading, justify="left" if heading.startswith("sub") else "right")
    wrong = 0
    for subscriber in subscribers:
        expected = {done.receipts[i].event_id for i in subscriber.expected}
        lost = len(expected - set(subscriber.got))
        extra = len(set(subscriber.got) - expected)
        duplicated = subscriber.got.total() - len(subscriber.got)
        wrong += lost + duplicated + extra
        table.add_row(
            escape(subscriber.query),
            str(len(expected)),
            str(subscriber.got.total()),
            str(lost),
            str(duplicated),
            str(extra),
        )
    console.print(table)
    reasons = Counter(error.code for error in done.refused.values())
    console.print(
        f"published {len(feed.items)}: {len(done.receipts)} durable, {len(done.refused)} refused"
        + "".join(f", {count} {code}" for code, count in reasons.items())
    )
    for error in list(done.refused.values())[:3]:
        console.print(f"  for example: {error}", markup=False)
    deliveries = sum(s.got.total() for s in subscribers)
    console.print(
        f"{len(feed.items) / seconds:,.0f} events/s in, {deliveries / seconds:,.0f} deliveries/s "
        f"out, {seconds:.1f} s including kill, restart and reconnections"
    )
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=int, help="number of events to publish")
    parser.add_argument("--keep", type=Path, help="keep the node's data and log in this folder")
    arguments = parser.parse_args()
    console = Console()
    with console.status("reading the events"):
        feed = load_feed(arguments.limit)
    with contextlib.ExitStack() as stack:
        if arguments.keep is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="xmlbroker-")))
        else:
            folder = arguments.keep.resolve()
        node = NodeProcess(folder / "first", folder / "archive")
        second = NodeProcess(folder / "second", folder / "archive")
        done = Publications()
        away = AwayClient(folder / "client", max(1, len(feed.items) // 4))
        try:
            wrong = asyncio.run(run_demo(feed, node, done, away, console))
            published = {receipt.event_id for receipt in done.receipts.values()}
            wrong += lose_first_node(away, node, second, published, console)
        except KeyboardInterrupt:
            console.print("interrupted; the nodes are being stopped")
            wrong = 130
        except (BrokerError, OSError, TimeoutError) as error:
            console.print(f"[bold red]{error}[/]\nthe node's log ends with:")
            for each in (node, second):
                console.print("\n".join(each.log().splitlines()[-15:]), markup=False)
            wrong = 1
        finally:
            node.stop()
            second.stop()
    if wrong == 0:
        console.print("[bold green]nothing lost, nothing duplicated[/]")
    return min(wrong, 255)


if __name__ == "__main__":
    sys.exit(main())
