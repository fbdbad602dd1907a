"""A subscriber of the client library that records the age of each event at arrival."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.harness.actor_control import ActorControl, run_actor
from benchmarks.harness.failure import BenchmarkFailed
from broker.client.asyncio_face import connect
from broker.client.received import ReceivedEvent

_BEFORE = b"<timestamp>"


def parse_due_time(event: ReceivedEvent) -> int:
    """Return monotonic ns, without building a tree."""
    document = event.document
    start = document.index(_BEFORE) + len(_BEFORE)
    return int(document[start : start + 24])


async def play(control: ActorControl, task: Any) -> None:
    """`task`: endpoint, query, portions (matching events of each run), login (account and secret,
    if any).

    Reports pairs for each event: due time (monotonic) and latency, in ns.
    """
    async with connect(task["endpoint"], client_id="subscriber", **task.get("login", {})) as client:
        subscription = await client.subscribe(task["query"])
        events = aiter(subscription)
        for count in task["portions"]:
            control.report("ready")
            await control.wait_for_start()
            ages: list[tuple[int, int]] = []
            cpu = time.process_time()
            while len(ages) < count:
                due = parse_due_time(await anext(events))
                ages.append((due, time.monotonic_ns() - due))
            if subscription.gaps:
                raise BenchmarkFailed(f"events were dropped: {subscription.gaps[0]}")
            control.report("done", ages=ages, cpu=time.process_time() - cpu)


if __name__ == "__main__":
    run_actor(play)
