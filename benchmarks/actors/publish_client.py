"""Publishes through the client library, with a bounded number of unanswered events."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable
from typing import Any

from benchmarks.harness.actor_control import ActorControl, run_actor
from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.harness.flights import FLIGHT, STREAM, flight_payload
from broker.client.asyncio_face import AsyncioClient, connect
from broker.client.received import Receipt


async def publish_all(client: AsyncioClient, payloads: list[bytes], window: int) -> int:
    """Publish all; at `window` pending receipts wait for the older half."""
    awaited: deque[Awaitable[Receipt]] = deque()
    accepted = 0
    for payload in payloads:
        if len(awaited) >= window:
            for _ in range(window // 2):
                accepted += _is_new(await awaited.popleft())
        awaited.append(client.publish(STREAM, payload, FLIGHT))
    for receipt in await asyncio.gather(*awaited):
        accepted += _is_new(receipt)
    return accepted


def _is_new(receipt: Receipt) -> bool:
    if receipt.place is None:
        raise BenchmarkFailed(f"the node knew {receipt.event_id} already")
    return True


async def play(control: ActorControl, task: Any) -> None:
    """`task`: endpoint, window (events unanswered), portions (events of each run)."""
    first = 0
    async with connect(task["endpoint"], client_id="publisher") as client:
        await client.when_connected(10.0)
        for count in task["portions"]:
            payloads = [flight_payload(number) for number in range(first, first + count)]
            first += count
            control.report("ready", bytes=sum(map(len, payloads)))
            await control.wait_for_start()
            cpu, began = time.process_time(), time.monotonic()
            accepted = await publish_all(client, payloads, task["window"])
            control.report("done", began=began, accepted=accepted, cpu=time.process_time() - cpu)


if __name__ == "__main__":
    run_actor(play)
