"""A node that is killed or stopped in use has all acknowledged events."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from pathlib import Path

import pytest

from broker.client.asyncio_face import AsyncioClient, connect
from broker.client.received import ALL, Receipt
from broker.errors import BrokerError, ShuttingDown
from broker.event.reader import read_event
from broker.log.external_reader import read_events
from tests.seeds import seeds
from tests.system.node_process import NodeProcess
from tests.system.raw_session import RawSession
from tests.system.traffic import FLIGHT, Inbox, flight, run_within

pytestmark = pytest.mark.system

EVENTS = 1000
MAX_UNACKNOWLEDGED = 150


class Publications:
    def __init__(self, client: AsyncioClient) -> None:
        self._client = client
        self._slots = asyncio.Semaphore(MAX_UNACKNOWLEDGED)
        self._settled = asyncio.Event()
        self.receipts: list[Receipt] = []

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for number in range(EVENTS):
                await self._slots.acquire()
                tasks.create_task(self._publish_one(number))

    async def _publish_one(self, number: int) -> None:
        self.receipts.append(await self._client.publish("crash.a", flight(number), FLIGHT))
        self._slots.release()
        self._settled.set()

    async def until_durable(self, count: int) -> None:
        while len(self.receipts) < count:
            self._settled.clear()
            await self._settled.wait()


def epoch_of(node: NodeProcess) -> int:
    lines = [line for line in node.log().splitlines() if " is ready: log " in line]
    return int(lines[-1].split("epoch ")[1].split(",")[0])


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_acknowledged_events_survive_kill_9_and_are_delivered_once(
    seed: int, tmp_path: Path
) -> None:
    kill_counts = sorted(random.Random(seed).sample(range(1, EVENTS - MAX_UNACKNOWLEDGED), 2))

    async def work(node: NodeProcess) -> None:
        async with (
            connect(node.endpoint, client_id="publisher") as publisher,
            connect(node.endpoint, client_id="subscriber") as subscriber,
        ):
            inbox = Inbox(await subscriber.subscribe("true()", "crash.>", durable="all"))
            publications = Publications(publisher)
            publishing = asyncio.create_task(publications.run())
            for kill_count in kill_counts:
                await publications.until_durable(kill_count)
                node.kill()
                acknowledged = {
                    receipt.place: receipt.event_id
                    for receipt in publications.receipts
                    if receipt.place is not None
                }
                logged = {
                    event.offset: (event.epoch, read_event(event.document).event_id)
                    for event in read_events(node.data / "log", 1, EVENTS)
                }
                for place, event_id in acknowledged.items():
                    assert logged[place.offset] == (place.epoch, event_id)
                await asyncio.to_thread(node.start)
            await publishing
            await inbox.wait_for_receipts(publications.receipts)
            await inbox.close()
            assert len(publications.receipts) == EVENTS
            assert set(inbox.counts().values()) == {1}
            numbers = [event.event_id.sequence_number for event in inbox.events]
            assert numbers == list(range(1, EVENTS + 1))
            places = [event.place for event in inbox.events]
            assert [place.offset for place in places] == list(range(1, EVENTS + 1))
            assert [place.epoch for place in places] == sorted(place.epoch for place in places)

    with NodeProcess(tmp_path) as node:
        epoch = epoch_of(node)
        run_within(work(node))
        assert epoch_of(node) >= epoch + len(kill_counts)
        node.stop()
        logged = read_events(node.data / "log", 1, EVENTS + 1)
        assert [event.offset for event in logged] == list(range(1, EVENTS + 1))


def test_node_killed_while_idle_starts_a_new_epoch_with_all_events(tmp_path: Path) -> None:
    async def publish(node: NodeProcess) -> None:
        async with connect(node.endpoint) as client:
            for number in range(5):
                await client.publish("idle.a", flight(number), FLIGHT)

    async def read(node: NodeProcess, epochs: tuple[int, int]) -> None:
        async with connect(node.endpoint) as client:
            inbox = Inbox(await client.subscribe("true()", "idle.a", start=ALL))
            receipt = await client.publish("idle.a", flight(6), FLIGHT)
            await inbox.wait_for_receipts([receipt])
            await inbox.close()
            marks = [(event.place.epoch, event.place.offset) for event in inbox.events]
            assert marks == [*((epochs[0], n) for n in range(1, 6)), (epochs[1], 6)]

    with NodeProcess(tmp_path) as node:
        run_within(publish(node))
        first = epoch_of(node)
        node.kill()
        node.start()
        assert epoch_of(node) > first
        run_within(read(node, (first, epoch_of(node))))


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_stop_commits_and_notifies_clients(by: signal.Signals, tmp_path: Path) -> None:
    async def work(node: NodeProcess) -> None:
        reasons: asyncio.Queue[BrokerError | None] = asyncio.Queue()
        async with (
            connect(node.endpoint, client_id="publisher") as client,
            connect(node.endpoint, client_id="watcher") as watcher,
        ):
            # A sending client may get a reset before the reason.
            await watcher.when_connected()
            watcher.on_state = lambda up, error: None if up else reasons.put_nowait(error)
            inbox = Inbox(await client.subscribe("true()", "crash.>", durable="all"))
            publications = Publications(client)
            publishing = asyncio.create_task(publications.run())
            await publications.until_durable(300)
            await asyncio.to_thread(node.stop, by)
            durable = len(publications.receipts)
            # The node may be down before this process has read its last message.
            assert isinstance(await reasons.get(), ShuttingDown)
            logged = read_events(node.data / "log", 1, EVENTS)
            assert durable <= len(logged)
            await asyncio.to_thread(node.start)
            await publishing
            await inbox.wait_for_receipts(publications.receipts)
            await inbox.close()
            assert set(inbox.counts().values()) == {1}

    with NodeProcess(tmp_path) as node:
        run_within(work(node))
        assert node.log().count("has stopped in good order") == 1


def test_stop_takes_seconds_with_a_client_that_never_reads(tmp_path: Path) -> None:
    async def work(node: NodeProcess) -> None:
        async with connect(node.endpoint) as publisher:
            raw = await RawSession.open(node.port, "deaf")
            await raw.subscribe(1, ">")
            await asyncio.gather(
                *(
                    publisher.publish("crash.a", flight(n, filling="x" * 20_000), FLIGHT)
                    for n in range(300)
                )
            )
            began = time.monotonic()
            await asyncio.to_thread(node.stop)
            assert time.monotonic() - began < 5.0
            raw.close()

    with NodeProcess(tmp_path) as node:
        run_within(work(node))
        assert "has stopped in good order" in node.log()
