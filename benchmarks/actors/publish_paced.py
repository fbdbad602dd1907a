"""Publishes at an even pace through the client library; each payload says when it was due."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Any

from benchmarks.harness.cue import Cue, act
from benchmarks.harness.flights import FLIGHT, STREAM, flight_payload
from broker.client.asyncio_face import AsyncioClient, connect
from broker.client.received import Receipt

#: Digits of a time stamp, to keep the payload's length.
_STAMP = b"%024d"


async def publish_evenly(client: AsyncioClient, count: int, rate: float) -> float:
    """Publish `count` events, `rate` a second; how late (seconds) the latest of them left.

    What an event is late counts as latency, since its time stamp is when it was due: a publisher
    that falls behind must not make the figures look better.
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
        # Thousands of old receipts would make the garbage collector's pauses our latency.
        while awaited and awaited[0].done():
            awaited.popleft().result()
    await asyncio.gather(*awaited)
    return latest


async def play(cue: Cue, task: Any) -> None:
    """`task`: endpoint, rate (events a second), portions (events sent at each cue)."""
    async with connect(task["endpoint"], client_id="publisher") as client:
        await client.when_connected(10.0)
        for count in task["portions"]:
            cue.say("ready")
            await cue.go()
            cpu = time.process_time()
            late = await publish_evenly(client, count, task["rate"])
            cue.say("done", late=late, cpu=time.process_time() - cpu)


if __name__ == "__main__":
    act(play)
