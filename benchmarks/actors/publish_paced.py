"""Publishes at an even rate through the client library; each payload has its due time."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Any

from benchmarks.harness.actor_control import ActorControl, run_actor
from benchmarks.harness.flights import FLIGHT, STREAM, flight_payload
from broker.client.asyncio_face import AsyncioClient, connect
from broker.client.received import Receipt

#: Payloads keep their length.
_STAMP = b"%024d"


async def publish_evenly(client: AsyncioClient, count: int, rate: float) -> float:
    """Return the greatest delay of a publication in seconds.

    The time stamp is the due time: a publisher that falls behind must not improve the figures.
    """
    awaited: deque[asyncio.Future[Receipt]] = deque()
    began, latest = time.monotonic(), 0.0
    for number in range(count):
        due = began + number / rate
        ahead = due - time.monotonic()
        if ahead > 0:
            await asyncio.sleep(ahead)
        latest = max(latest, time.monotonic() - due)
        stamp = _STAMP % int(due * 1e9)
        receipt = client.publish(STREAM, flight_payload(number, stamp), FLIGHT)
        awaited.append(asyncio.ensure_future(receipt))
        # Old receipts would add pauses of the garbage collector.
        while awaited and awaited[0].done():
            awaited.popleft().result()
    await asyncio.gather(*awaited)
    return latest


async def play(control: ActorControl, task: Any) -> None:
    """`task`: endpoint, rate (events a second), portions (events of each run), login (account and
    secret, if any)."""
    login = task.get("login", {})
    async with connect(task["endpoint"], client_id="publisher", **login) as client:
        await client.when_connected(10.0)
        for count in task["portions"]:
            control.report("ready")
            await control.wait_for_start()
            cpu = time.process_time()
            late = await publish_evenly(client, count, task["rate"])
            control.report("done", late=late, cpu=time.process_time() - cpu)


if __name__ == "__main__":
    run_actor(play)
