"""Counting subscribers: real sessions in one process that read only headers."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from benchmarks.harness.actor_control import ActorControl, run_actor
from benchmarks.harness.delivery_count import DeliveryCount
from benchmarks.harness.raw_session import RawSession
from broker.client.settings import client_settings
from broker.wire.messages import Credit, Subscribe

EVERYTHING: Final = "true()"


class Subscriber:
    def __init__(self, endpoint: str, index: int, query: str) -> None:
        self.count = DeliveryCount(everything=query == EVERYTHING)
        self._query = query
        self._wanted = 0
        self._reached: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._flowing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.session = RawSession(
            endpoint, client_settings(client_id=f"subscriber-{index}"), self._receive
        )

    async def subscribe(self) -> None:
        """Wait until the subscription is active."""
        await self.session.connected
        # The stack's own window is bound enough.
        self.session.send_message(Credit(1 << 62))
        self.session.send_message(
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
        await self._wait_unless_lost(self._flowing)

    def expect_total(self, total: int) -> None:
        self._wanted = total
        self._reached = asyncio.get_running_loop().create_future()

    async def wait_for_total(self) -> float:
        """Return the monotonic time."""
        await self._wait_unless_lost(self._reached)
        return self._reached.result()

    async def _wait_unless_lost(self, future: asyncio.Future[Any]) -> None:
        await asyncio.wait([future, self.session.lost], return_when="FIRST_COMPLETED")
        if self.session.lost.done():
            self.session.lost.result()

    def _receive(self, data: bytes) -> None:
        self.count.count_message(data)
        if self.count.flowing and not self._flowing.done():
            self._flowing.set_result(None)
        if self._wanted and self.count.total >= self._wanted and not self._reached.done():
            self._reached.set_result(time.monotonic())


async def play(control: ActorControl, task: Any) -> None:
    """`task`: endpoint, subscribers, portions (events of each run), query."""
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
            subscriber.expect_total(total)
        control.report("ready")
        await control.wait_for_start()
        cpu = time.process_time()
        times = await asyncio.gather(*(subscriber.wait_for_total() for subscriber in subscribers))
        before, dropped = dropped, sum(subscriber.count.dropped for subscriber in subscribers)
        control.report(
            "done", ended=max(times), dropped=dropped - before, cpu=time.process_time() - cpu
        )
    for subscriber in subscribers:
        subscriber.session.close()


if __name__ == "__main__":
    run_actor(play)
