"""Publishers of mixed sizes and kinds, and what their subscribers are owed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from random import Random

import attrs

from broker.client.asyncio_face import AsyncioClient
from broker.client.received import ReceivedEvent
from broker.event.envelope import EventType
from broker.event.event_id import EventId
from tests.system.traffic import FLIGHT, Inbox, flight

#: Events of one publisher that may be unacknowledged.
UNDER_WAY = 100
#: Bytes by which flight records are made longer: up to more than a hundred datagrams.
FILLINGS = (0, 0, 0, 700, 1100, 3000, 0, 20_000, 100, 0)
LONGEST_FILLING = 199_000
#: Each so manieth event is that long, is a real alert, flies high.
LONGEST_EVERY, REAL_EVERY, HIGH_EVERY = 100, 3, 4
HIGH = "/flight[flightleg/altitude > 300]"


@attrs.frozen
class Published:
    event_id: EventId
    high: bool


class Publisher:
    """Publishes flights and real alerts, some at once; `published` is what its node has logged."""

    def __init__(self, client: AsyncioClient, alerts: Sequence[bytes]) -> None:
        self._client = client
        self._alerts = alerts
        self._noise = Random(len(alerts))
        self._room = asyncio.Semaphore(UNDER_WAY)
        self.published: list[Published] = []

    async def publish(self, count: int) -> None:
        """Publish so many more; returns when all of them are durable."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(count):
                await self._room.acquire()
                tasks.create_task(self._one(number))

    async def _one(self, number: int) -> None:
        high = False
        if self._alerts and number % REAL_EVERY == 0:
            alert = self._alerts[number % len(self._alerts)]
            receipt = await self._client.publish("lossy", alert, EventType("VOEvent", "2.0"))
        else:
            high = number % HIGH_EVERY == 1
            filling = FILLINGS[number % len(FILLINGS)]
            if number % LONGEST_EVERY == LONGEST_EVERY - 1:
                filling = LONGEST_FILLING
            # What can not be made much shorter by compressing it.
            noise = self._noise.randbytes(filling // 2).hex()
            record = flight(number, 400 if high else 200, noise)
            receipt = await self._client.publish("lossy", record, FLIGHT)
        self.published.append(Published(receipt.event_id, high))
        self._room.release()

    def due(self, *, high: bool) -> list[EventId]:
        """The events in its order, all or those that fly high."""
        found = [each.event_id for each in self.published if each.high or not high]
        return sorted(found, key=lambda event_id: event_id.sequence_number)


def check(
    received: Sequence[ReceivedEvent], publishers: Sequence[Publisher], *, high: bool = False
) -> None:
    """All that a subscriber was owed came once and in each publisher's order, and no more."""
    ids = [event.event_id for event in received]
    for publisher in publishers:
        due = publisher.due(high=high)
        client = due[0].client_id
        assert [each for each in ids if each.client_id == client] == due
    assert len(ids) == sum(len(each.due(high=high)) for each in publishers)


async def until_all(
    inboxes: Iterable[Inbox],
    publishers: Sequence[Publisher],
    *,
    before: int = 0,
    high: bool = False,
) -> None:
    """Wait until so many have come as are due; `before` have come to an earlier inbox."""
    due = sum(len(publisher.due(high=high)) for publisher in publishers) - before
    for inbox in inboxes:
        await inbox.until(lambda inbox=inbox: len(inbox.events) >= due)  # type: ignore[misc]


class Pauses:
    """How long nothing of one publisher came to an inbox."""

    def __init__(self, inbox: Inbox, client_id: str) -> None:
        self._inbox = inbox
        self._client_id = client_id
        self._longest = 0.0
        self._task = asyncio.create_task(self._watch())

    async def longest(self) -> float:
        """Seconds. Ends it."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        return self._longest

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        events, seen, since = self._inbox.events, 0, 0.0
        while True:
            await self._inbox.until(lambda seen=seen: len(events) > seen)  # type: ignore[misc]
            now = loop.time()
            if any(each.event_id.client_id == self._client_id for each in events[seen:]):
                self._longest = max(self._longest, now - (since or now))
                since = now
            seen = len(events)
