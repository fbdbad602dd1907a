"""A worker that dies at one event gets past it after restarts (Q2)."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from broker.client.asyncio_face import AsyncioClient, connect
from broker.client.received import ReceivedEvent
from broker.client.worker import Working
from tests.system.node_process import PATIENCE, ROOT, NodeProcess
from tests.system.traffic import FLIGHT, flight, run_within

pytestmark = pytest.mark.system

DEADLY, EVENTS = 3, 6


async def worker(node: NodeProcess, state: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.system.poisoned_worker"),
        *(node.endpoint, str(state), str(DEADLY)),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )


async def publish(client: AsyncioClient) -> None:
    for number in range(EVENTS):
        await client.publish("work", flight(number), FLIGHT)


def test_event_that_kills_its_worker_becomes_a_dead_letter(tmp_path: Path) -> None:
    async def work() -> None:
        async with connect(node.endpoint, client_id="other") as client:
            letters = await client.subscribe("/deadletter[@client = 'worker']")
            async with connect(node.endpoint, client_id="worker", state=state) as first:
                await first.subscribe("/flight", durable="d")
            await publish(client)
            done: list[int] = []
            # The first dies without a record; the last gives the event up.
            for _ in range(3):
                process = await worker(node, state)
                output, _ = await process.communicate()
                assert process.returncode == -signal.SIGKILL
                done += map(int, output.split())
            process = await worker(node, state)
            letter = await anext(letters)
            assert b'tries="2"' in (letter.payload or b"")
            assert b"its process died" in (letter.payload or b"")
            assert process.stdout is not None
            while len(set(done)) < EVENTS - 1:
                done.append(int(await process.stdout.readline()))
            process.kill()
            await process.communicate()
            assert DEADLY not in done
            # Events without an acknowledgement repeat.
            assert sorted(set(done)) == [n for n in range(EVENTS) if n != DEADLY]

    state = tmp_path / "state"
    with NodeProcess(tmp_path) as node:
        run_within(work(), 4 * PATIENCE)


def test_hanging_event_becomes_a_dead_letter_and_cancelling_ends_the_worker(
    shared_node: NodeProcess,
) -> None:
    attempts: list[bytes | None] = []

    async def hang(event: ReceivedEvent) -> None:
        attempts.append(event.payload)
        await asyncio.get_running_loop().create_future()

    async def work() -> None:
        quick = Working(max_deliver=2, ack_timeout=0.05, pause=0.01, dead_letters="hung.letters")
        async with connect(shared_node.endpoint, client_id="hanging") as client:
            letters = await client.subscribe("true()", "hung.letters")
            (await client.subscribe("/flight", "hung", durable="h")).unsubscribe()
            await client.publish("hung", flight(1), FLIGHT)
            working = asyncio.create_task(
                client.work(hang, "/flight", "hung", durable="h", working=quick)
            )
            assert b"it timed out after 0.05 s" in ((await anext(letters)).payload or b"")
            assert attempts == [flight(1)] * 2
            working.cancel()
            with pytest.raises(asyncio.CancelledError):
                await working

    run_within(work())
