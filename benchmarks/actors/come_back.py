"""Clients that come back, all in this process: each goes on behind a position with its query.

They look at the headers of deliveries alone, and check that each gets what it missed: as many
events as match, in the order of their places, none twice, and nothing told as lost.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from benchmarks.actors.subscribe import EVERYTHING
from benchmarks.harness.cue import Cue, act
from benchmarks.harness.delivery_count import DeliveryCount
from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.harness.lean_session import LeanSession
from benchmarks.workloads.archived_flights import band_counts, band_queries
from broker.client.settings import client_settings
from broker.wire.messages import Credit, Subscribe

#: Seconds without an event for anybody, after which what is missing will not come: a job in a large
#: archive takes long before its first event.
_SILENCE: Final = 300.0
_GLANCE: Final = 1.0


class Returning:
    """One client with one subscription."""

    def __init__(
        self,
        endpoint: str,
        name: str,
        query: str,
        wanted: int,
        behind: Mapping[str, tuple[int, int]],
    ) -> None:
        """`behind` is its position, and `wanted` how many events match behind it."""
        self._query = query
        self._behind = behind
        self._wanted = wanted
        self.count = DeliveryCount(everything=query == EVERYTHING, behind=behind)
        self.first = self.last = 0.0
        """When (monotonic seconds) its first event and its last one came."""
        loop = asyncio.get_running_loop()
        self.complete: asyncio.Future[None] = loop.create_future()
        self.session = LeanSession(endpoint, client_settings(client_id=name), self._take)
        if not wanted:
            self.complete.set_result(None)

    def come_back(self) -> None:
        """Say where it has got to."""
        # Nothing waits for a user here: the stack's own window is bound enough.
        self.session.say(Credit(1 << 62))
        self.session.say(
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
        """Raise what went wrong."""
        if self.session.broken.done():
            self.session.broken.result()
        if self.count.dropped:
            raise BenchmarkFailed(f"{self.count.dropped} places were told as lost")

    def _take(self, data: bytes) -> None:
        before = self.count.events
        self.count.take(data)
        if self.count.events == before:
            return
        self.last = time.monotonic()
        self.first = self.first or self.last
        if self.count.events > self._wanted:
            raise BenchmarkFailed(f"more than {self._wanted} events came for {self._query}")
        if self.count.events == self._wanted:
            self.complete.set_result(None)


async def play(cue: Cue, task: Any) -> None:
    """`task`: clients, name, events (that the bands' events begin with 0 and are so many), or
    missed (then one client wants everything, and so many events it is).

    The cue brings endpoint and behind (origin, epoch, offset).
    """
    if "missed" in task:
        queries, wanted = [EVERYTHING], [task["missed"]]
    else:
        queries = band_queries(task["clients"])
        wanted = band_counts(task["clients"], task["events"])
    cue.say("ready")
    told = await cue.go()
    origin, *mark = told["behind"]
    cpu, began = time.process_time(), time.monotonic()
    clients = [
        Returning(told["endpoint"], f"{task['name']}-{number}", query, count, {origin: (*mark,)})
        for number, (query, count) in enumerate(zip(queries, wanted, strict=True))
    ]
    for each in clients:
        await each.session.up
    connected = time.monotonic()
    for each in clients:
        each.come_back()
    await _all_complete(clients)
    # What came last may be told as lost behind it.
    for each in clients:
        each.check()
    some = [each for each in clients if each.first]
    cue.say(
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
    # Goodbyes leave before this process does.
    await asyncio.sleep(_GLANCE / 2)


async def _all_complete(clients: Sequence[Returning]) -> None:
    heard = time.monotonic()
    pending: set[asyncio.Future[None]] = {each.complete for each in clients}
    while pending:
        _, pending = await asyncio.wait(pending, timeout=_GLANCE)
        for each in clients:
            each.check()
        heard = max(heard, max(each.last for each in clients))
        if time.monotonic() > heard + _SILENCE:
            missing = sum(each.count.events for each in clients)
            raise BenchmarkFailed(
                f"after {_SILENCE:g} s of silence only {missing} events are there"
            )


if __name__ == "__main__":
    act(play)
