"""A subscriber by the client library that notes how old each event is when it arrives."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.harness.cue import Cue, act
from benchmarks.harness.failure import BenchmarkFailed
from broker.client.asyncio_face import connect
from broker.client.received import ReceivedEvent

_BEFORE = b"<timestamp>"


def due_ns(event: ReceivedEvent) -> int:
    """The time stamp in the payload, in monotonic ns: no tree is built to read it."""
    document = event.document
    start = document.index(_BEFORE) + len(_BEFORE)
    return int(document[start : start + 24])


async def play(cue: Cue, task: Any) -> None:
    """`task`: endpoint, query, portions (events that match, of those sent at each cue).

    Reports pairs: when the event was due (monotonic ns), and how long it then took (ns).
    """
    async with connect(task["endpoint"], client_id="subscriber") as client:
        subscription = await client.subscribe(task["query"])
        events = aiter(subscription)
        for count in task["portions"]:
            cue.say("ready")
            await cue.go()
            ages: list[tuple[int, int]] = []
            cpu = time.process_time()
            while len(ages) < count:
                due = due_ns(await anext(events))
                ages.append((due, time.monotonic_ns() - due))
            if subscription.gaps:
                raise BenchmarkFailed(f"events were dropped: {subscription.gaps[0]}")
            cue.say("done", ages=ages, cpu=time.process_time() - cpu)


if __name__ == "__main__":
    act(play)
