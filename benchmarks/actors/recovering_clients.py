"""Many returning clients, each with its position and query.

They read only headers. Each must get exactly the missed events that match: in the order of their
places, none twice, and none reported as lost.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from benchmarks.actors.subscribe import EVERYTHING
from benchmarks.harness.actor_control import ActorControl, run_actor
from benchmarks.harness.delivery_count import DeliveryCount
from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.harness.raw_session import RawSession
from benchmarks.workloads.archived_flights import band_counts, band_queries
from broker.client.settings import client_settings
from broker.wire.messages import Credit, Subscribe

#: Seconds without any event. A job in a large archive takes long before its first event.
_SILENCE: Final = 300.0
_GLANCE: Final = 1.0


class ReturningClient:
    def __init__(
        self,
        endpoint: str,
        name: str,
        query: str,
        expected: int,
        behind: Mapping[str, tuple[int, int]],
    ) -> None:
        """`expected` events match after the position `behind`."""
        self._query = query
        self._behind = behind
        self._wanted = expected
        self.count = DeliveryCount(everything=query == EVERYTHING, behind=behind)
        self.first = self.last = 0.0
        """Monotonic seconds of its first and last event."""
        loop = asyncio.get_running_loop()
        self.complete: asyncio.Future[None] = loop.create_future()
        self.session = RawSession(endpoint, client_settings(client_id=name), self._receive)
        if not expected:
            self.complete.set_result(None)

    def subscribe(self) -> None:
        # The stack's own window is bound enough.
        self.session.send_message(Credit(1 << 62))
        self.session.send_message(
            Subscribe(
                number=1,
                pattern=">",
                query=self._query,
                namespaces={},
                durable="",
                start="position",
                position=tuple((origin, *mark) for origin, mark in self._behind.items()),
                time=0,
            )
        )

    def check(self) -> None:
        """Raise the error of a lost session, or for lost places."""
        if self.session.lost.done():
            self.session.lost.result()
        if self.count.dropped:
            raise BenchmarkFailed(f"{self.count.dropped} places were reported as lost")

    def _receive(self, data: bytes) -> None:
        before = self.count.events
        self.count.count_message(data)
        if self.count.events == before:
            return
        self.last = time.monotonic()
        self.first = self.first or self.last
        if self.count.events > self._wanted:
            raise BenchmarkFailed(f"more than {self._wanted} events came for {self._query}")
        if self.count.events == self._wanted:
            self.complete.set_result(None)


async def play(control: ActorControl, task: Any) -> None:
    """`task`: clients, name, and events (numbered from 0, for the bands' queries) or missed (one
    client gets all of so many events). The start message has endpoint and behind (origin, epoch,
    offset)."""
    if "missed" in task:
        queries, expected = [EVERYTHING], [task["missed"]]
    else:
        queries = band_queries(task["clients"])
        expected = band_counts(task["clients"], task["events"])
    control.report("ready")
    start = await control.wait_for_start()
    origin, *mark = start["behind"]
    cpu, began = time.process_time(), time.monotonic()
    clients = [
        ReturningClient(
            start["endpoint"], f"{task['name']}-{number}", query, count, {origin: (*mark,)}
        )
        for number, (query, count) in enumerate(zip(queries, expected, strict=True))
    ]
    for each in clients:
        await each.session.connected
    connected = time.monotonic()
    for each in clients:
        each.subscribe()
    await _wait_until_complete(clients)
    # Places may be reported as lost after the last event.
    for each in clients:
        each.check()
    some = [each for each in clients if each.first]
    control.report(
        "done",
        connecting=connected - began,
        asked=connected,
        first=min(each.first for each in some),
        ended=max(each.last for each in some),
        events=sum(each.count.events for each in clients),
        deliveries=sum(each.count.deliveries for each in clients),
        cpu=time.process_time() - cpu,
    )
    for each in clients:
        each.session.close()
    # The goodbyes must leave before.
    await asyncio.sleep(_GLANCE / 2)


async def _wait_until_complete(clients: Sequence[ReturningClient]) -> None:
    last_received = time.monotonic()
    pending: set[asyncio.Future[None]] = {each.complete for each in clients}
    while pending:
        _, pending = await asyncio.wait(pending, timeout=_GLANCE)
        for each in clients:
            each.check()
        last_received = max(last_received, max(each.last for each in clients))
        if time.monotonic() > last_received + _SILENCE:
            missing = sum(each.count.events for each in clients)
            raise BenchmarkFailed(
                f"after {_SILENCE:g} s of silence only {missing} events are there"
            )


if __name__ == "__main__":
    run_actor(play)
