"""Publishes events in PUBLISH messages that were built before the clock starts."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import deque
from typing import Any

from benchmarks.harness.actor_control import ActorControl, run_actor
from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.harness.flights import flight_documents
from benchmarks.harness.raw_session import RawSession
from broker.client.settings import client_settings
from broker.errors import from_wire
from broker.event.event_id import EventIdGenerator
from broker.wire import messages
from broker.wire.event_batch import encode_batch
from broker.wire.messages import Published


class Publisher:
    """Sends messages as fast as the session's window allows.

    With a `rate`, at most so many events a second are sent, one message at a time.
    """

    def __init__(self, endpoint: str, batch: int, rate: float | None = None) -> None:
        self._settings = client_settings(client_id="publisher")
        self._mint = EventIdGenerator(self._settings.client_id, self._settings.incarnation)
        self._batch = batch
        self._numbers = itertools.count(1)
        self._built: deque[bytes] = deque()
        self._session = RawSession(endpoint, self._settings, self._receive_answer, self._send_ready)
        self._is_sending = False
        self._every = batch / rate if rate else 0.0
        """Seconds between messages."""
        self._due = 0.0
        self._accepted = 0
        self._wanted = 0
        self._loop = asyncio.get_running_loop()
        self._done: asyncio.Future[None] = self._loop.create_future()

    async def connect(self) -> None:
        await self._session.connected

    def build(self, first: int, count: int) -> int:
        """Return the total length."""
        documents = flight_documents(self._mint, count, first)
        total = 0
        while batch := list(itertools.islice(documents, self._batch)):
            self._built.append(encode_batch(next(self._numbers), batch))
            total += len(self._built[-1])
        self._wanted += count
        return total

    async def send_built(self) -> int:
        """Return the number of acknowledged events."""
        before = self._accepted
        self._done = self._loop.create_future()
        self._is_sending = True
        self._due = self._loop.time()
        self._send_ready()
        await asyncio.wait([self._done, self._session.lost], return_when="FIRST_COMPLETED")
        if self._session.lost.done():
            self._session.lost.result()
        return self._accepted - before

    def close(self) -> None:
        self._session.close()

    def _send_ready(self) -> None:
        while self._is_sending and self._built and self._session.can_send:
            if self._every:
                if self._due > self._loop.time():
                    self._loop.call_at(self._due, self._send_ready)
                    return
                self._due += self._every
            self._session.send(self._built.popleft())

    def _receive_answer(self, data: bytes) -> None:
        answer = messages.decode(data)
        if not isinstance(answer, Published) or answer.refused or answer.duplicates:
            refused = getattr(answer, "refused", ())
            why = from_wire(refused[0][1]) if refused else answer
            raise BenchmarkFailed(f"the node did not take a batch: {why}")
        self._accepted += answer.accepted
        if self._accepted == self._wanted and not self._done.done():
            self._done.set_result(None)


async def play(control: ActorControl, task: Any) -> None:
    """`task`: endpoint, batch (events a message), portions (events of each run), rate.

    Portions are built outside the measurement.
    """
    publisher = Publisher(task["endpoint"], task["batch"], task.get("rate"))
    await publisher.connect()
    first = 0
    for count in task["portions"]:
        size = publisher.build(first, count)
        first += count
        control.report("ready", bytes=size)
        await control.wait_for_start()
        cpu, began = time.process_time(), time.monotonic()
        accepted = await publisher.send_built()
        cpu, ended = time.process_time() - cpu, time.monotonic()
        control.report("done", began=began, ended=ended, accepted=accepted, cpu=cpu)
    publisher.close()


if __name__ == "__main__":
    run_actor(play)
