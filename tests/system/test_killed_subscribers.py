from __future__ import annotations

import asyncio
import itertools
import sys
from pathlib import Path

import pytest

from broker.client.asyncio_face import AsyncioClient, connect
from tests.system.node_process import PATIENCE, ROOT, NodeProcess
from tests.system.traffic import FLIGHT, flight, run_within

pytestmark = pytest.mark.system

#: Then the process is killed.
KILL_AFTER = (40, 900)
LAST = 2500
SECONDS = 4 * PATIENCE


async def start_process(node: NodeProcess, kind: str, state: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.system.killed_subscriber", node.endpoint, kind, str(state)),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )


async def run_and_kill(node: NodeProcess, kind: str, state: Path) -> list[list[int]]:
    """Return the events that each process handled, until the last event."""
    handled: list[list[int]] = []
    for most in (*KILL_AFTER, LAST):
        process = await start_process(node, kind, state)
        assert process.stdout is not None
        numbers: list[int] = []
        while len(numbers) < most and (not numbers or numbers[-1] < LAST):
            numbers.append(int(await process.stdout.readline()))
        process.kill()
        # Lines written before the kill are still in the pipe.
        numbers += map(int, (await process.stdout.read()).split())
        await process.wait()
        handled.append(numbers)
    return handled


async def publish(client: AsyncioClient, count: int) -> None:
    await asyncio.gather(
        *(client.publish("killed.a", flight(number), FLIGHT) for number in range(count))
    )


def check(kind: str, handled: list[list[int]]) -> None:
    for numbers in handled:
        assert numbers == sorted(set(numbers)), f"{kind}: twice, or out of order, in one process"
    assert set(itertools.chain(*handled)) == set(range(1, LAST + 1)), f"{kind}: some are missing"
    for earlier, later in itertools.pairwise(handled):
        # Only the end of the killed process's events repeats.
        assert earlier[0] <= later[0] <= earlier[-1] + 1, kind


def test_killed_subscribers_of_each_kind_resume(tmp_path: Path) -> None:
    kinds = ("durable", "state", "working")

    async def work(node: NodeProcess) -> None:
        async with connect(node.endpoint, client_id="publisher") as publisher:
            for kind in kinds:
                # Before the first event.
                async with connect(node.endpoint, client_id=kind) as client:
                    await client.subscribe(durable="d")
            subscribers = asyncio.gather(
                *(run_and_kill(node, kind, tmp_path / kind) for kind in kinds)
            )
            for _ in range(LAST // 100):
                await publish(publisher, 100)
            for kind, handled in zip(kinds, await subscribers, strict=True):
                print(kind, [(each[0], each[-1], len(each)) for each in handled])
                check(kind, handled)

    with NodeProcess(tmp_path) as node:
        run_within(work(node), SECONDS)
