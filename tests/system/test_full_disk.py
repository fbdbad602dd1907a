"""A full disk: nothing is acknowledged or lost, and the cause is visible."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.client.asyncio_face import connect
from broker.client.received import Receipt
from broker.errors import BrokerError, LogUnavailable
from examples.free_ports import free_port
from tests.system.mounts import mounted_tmpfs
from tests.system.node_process import PATIENCE, NodeProcess
from tests.system.traffic import FLIGHT, POLL_SECONDS, Inbox, ask_status, flight, run_within

pytestmark = pytest.mark.system

DISK = 8 << 20
EVENT = 4000
EVENTS = 600


def http_request(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as page:
            return page.status, page.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


async def until_page(port: int, path: str, status: int) -> str:
    async with asyncio.timeout(PATIENCE):
        while True:
            code, text = await asyncio.to_thread(http_request, port, path)
            if code == status:
                return text
            await asyncio.sleep(POLL_SECONDS)


class ClientCalls:
    """Condition that callbacks of a client evaluate again."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    def wake(self, *_: object) -> None:
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


def test_full_disk_delays_publications_and_loses_none(tmp_path: Path) -> None:
    port = free_port()
    configuration = f'[metrics]\nendpoint = "tcp:port={port}:interface=127.0.0.1"\n'

    async def work(node: NodeProcess, ballast: Path) -> None:
        receipts: list[Receipt] = []
        reported: list[BrokerError | None] = []
        calls = ClientCalls()

        async with (
            connect(node.endpoint, client_id="publisher") as publisher,
            connect(node.endpoint, client_id="subscriber") as subscriber,
        ):

            def record_trouble(error: BrokerError | None) -> None:
                reported.append(error)
                calls.wake()

            publisher.on_trouble = record_trouble
            inbox = Inbox(await subscriber.subscribe("true()", "disk.>", durable="all"))

            async def publish(number: int) -> None:
                payload = flight(number, filling="x" * EVENT)
                receipts.append(await publisher.publish("disk.a", payload, FLIGHT))
                calls.wake()

            # Some fit on the disk and some do not.
            tasks = []
            for number in range(EVENTS):
                tasks.append(asyncio.create_task(publish(number)))
                if number % 50 == 49:
                    await calls.until(lambda: bool(reported) or len(receipts) == len(tasks))
            await calls.until(lambda: bool(reported))
            assert isinstance(reported[0], LogUnavailable)
            assert "its disk is full" in str(reported[0])
            assert publisher.trouble is reported[0]
            assert publisher.connected
            assert publisher.unacknowledged > 0
            assert 0 < len(receipts) < EVENTS

            page = await until_page(port, "/ready", 503)
            assert "log" in page
            assert (await asyncio.to_thread(http_request, port, "/health"))[0] == 200
            status = await ask_status(node.endpoint)
            assert status["log"]["failures"] > 0
            assert status["log"]["writable"] is False
            assert status["published"]["not_taken"] > 0
            await inbox.wait_for_receipts(receipts)
            before = list(receipts)
            late = Inbox(await subscriber.subscribe("true()", "disk.>", durable="late"))

            ballast.unlink()
            await asyncio.gather(*tasks)
            await until_page(port, "/ready", 200)
            assert reported[-1] is None
            assert publisher.trouble is None
            await inbox.wait_for_receipts(receipts)
            await late.wait_for_receipts(receipts[len(before) :])
            assert not any(receipt.duplicate for receipt in receipts)
            numbers = [event_id.sequence_number for event_id in inbox.ids]
            assert numbers == list(range(1, EVENTS + 1))
            assert set(late.counts().values()) == {1}
            assert not inbox.subscription.gaps
            await inbox.close()
            await late.close()

    with mounted_tmpfs(tmp_path / "disk", f"size={DISK}") as disk:
        ballast = disk / "ballast"
        ballast.write_bytes(b"\0" * (DISK * 3 // 4))
        with NodeProcess(tmp_path / "node", configuration, data=disk / "data") as node:
            # The events fit only without the ballast.
            run_within(work(node, ballast))
            assert node.log().count("the event log can not be written") >= 1
            assert "the event log can be written again" in node.log()
            node.stop()
            assert "has stopped in good order" in node.log()


def test_node_with_a_full_disk_can_be_stopped(tmp_path: Path) -> None:
    async def work(node: NodeProcess) -> None:
        async with connect(node.endpoint, client_id="publisher") as publisher:
            calls = ClientCalls()
            publisher.on_trouble = calls.wake
            waiting = [
                publisher.publish("disk.a", flight(n, filling="x" * EVENT), FLIGHT)
                for n in range(EVENTS)
            ]
            await calls.until(lambda: publisher.trouble is not None)
            await asyncio.to_thread(node.stop)
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert any(isinstance(result, BrokerError) for result in results)

    with mounted_tmpfs(tmp_path / "disk", f"size={DISK}") as disk:
        (disk / "ballast").write_bytes(b"\0" * (DISK * 3 // 4))
        with NodeProcess(tmp_path / "node", data=disk / "data") as node:
            run_within(work(node))
            assert "Traceback" not in node.log()
            assert "has stopped" in node.log(), node.log()
