"""Publishes events that were written, and put into PUBLISH messages, before the clock starts."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import deque
from typing import Any

from benchmarks.harness.cue import Cue, act
from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.harness.flights import flight_documents
from benchmarks.harness.lean_session import LeanSession
from broker.client.settings import client_settings
from broker.errors import from_wire
from broker.event.event_id import EventIdGenerator
from broker.wire import messages
from broker.wire.batches import encode_batch
from broker.wire.messages import Published


class Publisher:
    """Pushes messages as fast as the session's window allows, and counts the answers.

    With a `rate`, no more events a second than that are pushed, one message at a time.
    """

    def __init__(self, endpoint: str, batch: int, rate: float | None = None) -> None:
        self._settings = client_settings(client_id="publisher")
        self._mint = EventIdGenerator(self._settings.client_id, self._settings.incarnation)
        self._batch = batch
        self._numbers = itertools.count(1)
        self._built: deque[bytes] = deque()
        self._session = LeanSession(endpoint, self._settings, self._answered, self._push)
        self._pushing = False
        self._every = batch / rate if rate else 0.0
        """Seconds between messages."""
        self._due = 0.0
        self._accepted = 0
        self._wanted = 0
        self._loop = asyncio.get_running_loop()
        self._done: asyncio.Future[None] = self._loop.create_future()

    async def connect(self) -> None:
        """Wait for the session."""
        await self._session.up

    def build(self, first: int, count: int) -> int:
        """Build messages with `count` events; their length together."""
        documents = flight_documents(self._mint, count, first)
        total = 0
        while batch := list(itertools.islice(documents, self._batch)):
            self._built.append(encode_batch(next(self._numbers), batch))
            total += len(self._built[-1])
        self._wanted += count
        return total

    async def push(self) -> int:
        """Send all that is built, and wait until the node has acknowledged it: so many events."""
        before = self._accepted
        self._done = self._loop.create_future()
        self._pushing = True
        self._due = self._loop.time()
        self._push()
        await asyncio.wait([self._done, self._session.broken], return_when="FIRST_COMPLETED")
        if self._session.broken.done():
            self._session.broken.result()
        return self._accepted - before

    def close(self) -> None:
        """End the session."""
        self._session.close()

    def _push(self) -> None:
        while self._pushing and self._built and self._session.can_send:
            if self._every:
                if self._due > self._loop.time():
                    self._loop.call_at(self._due, self._push)
                    return
                self._due += self._every
            self._session.send(self._built.popleft())

    def _answered(self, data: bytes) -> None:
        answer = messages.decode(data)
        if not isinstance(answer, Published) or answer.refused or answer.duplicates:
            refused = getattr(answer, "refused", ())
            why = from_wire(refused[0][1]) if refused else answer
            raise BenchmarkFailed(f"the node did not take a batch: {why}")
        self._accepted += answer.accepted
        if self._accepted == self._wanted and not self._done.done():
            self._done.set_result(None)


async def play(cue: Cue, task: Any) -> None:
    """`task`: endpoint, batch (events a message), portions (events built at a time), rate.

    Each portion is built while nothing is measured, and sent at the cue.
    """
    publisher = Publisher(task["endpoint"], task["batch"], task.get("rate"))
    await publisher.connect()
    first = 0
    for count in task["portions"]:
        size = publisher.build(first, count)
        first += count
        cue.say("ready", bytes=size)
        await cue.go()
        cpu, began = time.process_time(), time.monotonic()
        accepted = await publisher.push()
        cpu, ended = time.process_time() - cpu, time.monotonic()
        cue.say("done", began=began, ended=ended, accepted=accepted, cpu=cpu)
    publisher.close()


if __name__ == "__main__":
    act(play)
