"""Subscribers that count: real sessions, all in this process, which look at headers alone."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from benchmarks.harness.cue import Cue, act
from benchmarks.harness.delivery_count import DeliveryCount
from benchmarks.harness.lean_session import LeanSession
from broker.client.settings import client_settings
from broker.wire.messages import Credit, Subscribe

EVERYTHING: Final = "true()"


class Subscriber:
    """One session with one subscription."""

    def __init__(self, endpoint: str, index: int, query: str) -> None:
        self.count = DeliveryCount(everything=query == EVERYTHING)
        self._query = query
        self._wanted = 0
        self._reached: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._flowing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.session = LeanSession(
            endpoint, client_settings(client_id=f"subscriber-{index}"), self._take
        )

    async def subscribe(self) -> None:
        """Connect, subscribe, and wait until it flows."""
        await self.session.up
        # Nothing waits for a user here: the stack's own window is bound enough.
        self.session.say(Credit(1 << 62))
        self.session.say(
            Subscribe(
                number=1,
                pattern=">",
                query=self._query,
                namespaces={},
                durable="",
                start="new",
                position=(),
                time=0,
            )
        )
        await self._or_broken(self._flowing)

    def want(self, total: int) -> None:
        """From now on `reached` waits for so many events altogether."""
        self._wanted = total
        self._reached = asyncio.get_running_loop().create_future()

    async def reached(self) -> float:
        """When (monotonic seconds) the last of the wanted events had come."""
        await self._or_broken(self._reached)
        return self._reached.result()

    async def _or_broken(self, future: asyncio.Future[Any]) -> None:
        await asyncio.wait([future, self.session.broken], return_when="FIRST_COMPLETED")
        if self.session.broken.done():
            self.session.broken.result()

    def _take(self, data: bytes) -> None:
        self.count.take(data)
        if self.count.flowing and not self._flowing.done():
            self._flowing.set_result(None)
        if self._wanted and self.count.total >= self._wanted and not self._reached.done():
            self._reached.set_result(time.monotonic())


async def play(cue: Cue, task: Any) -> None:
    """`task`: endpoint, subscribers, portions (events that will come after each cue), query."""
    query = task.get("query", EVERYTHING)
    subscribers = [
        Subscriber(task["endpoint"], index, query) for index in range(task["subscribers"])
    ]
    for subscriber in subscribers:
        await subscriber.subscribe()
    total = dropped = 0
    for count in task["portions"]:
        total += count
        for subscriber in subscribers:
            subscriber.want(total)
        cue.say("ready")
        await cue.go()
        cpu = time.process_time()
        times = await asyncio.gather(*(subscriber.reached() for subscriber in subscribers))
        before, dropped = dropped, sum(subscriber.count.dropped for subscriber in subscribers)
        cue.say("done", ended=max(times), dropped=dropped - before, cpu=time.process_time() - cpu)
    for subscriber in subscribers:
        subscriber.session.close()


if __name__ == "__main__":
    act(play)
