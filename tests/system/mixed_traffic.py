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

#: Of one publisher.
MAX_UNACKNOWLEDGED = 100
#: In bytes; the largest need more than a hundred datagrams.
FILLINGS = (0, 0, 0, 700, 1100, 3000, 0, 20_000, 100, 0)
LONGEST_FILLING = 199_000
#: Every n-th event has the longest padding, is a real alert, flies high.
LONGEST_EVERY, REAL_EVERY, HIGH_EVERY = 100, 3, 4
HIGH = "/flight[flightleg/altitude > 300]"


@attrs.frozen
class Published:
    event_id: EventId
    high: bool


class Publisher:
    """`published` lists the acknowledged events."""

    def __init__(self, client: AsyncioClient, alerts: Sequence[bytes]) -> None:
        self._client = client
        self._alerts = alerts
        self._noise = Random(len(alerts))
        self._room = asyncio.Semaphore(MAX_UNACKNOWLEDGED)
        self.published: list[Published] = []

    async def publish(self, count: int) -> None:
        async with asyncio.TaskGroup() as tasks:
            for number in range(count):
                await self._room.acquire()
                tasks.create_task(self._publish_one(number))

    async def _publish_one(self, number: int) -> None:
        high = False
        if self._alerts and number % REAL_EVERY == 0:
            alert = self._alerts[number % len(self._alerts)]
            receipt = await self._client.publish("lossy", alert, EventType("VOEvent", "2.0"))
        else:
            high = number % HIGH_EVERY == 1
            filling = FILLINGS[number % len(FILLINGS)]
            if number % LONGEST_EVERY == LONGEST_EVERY - 1:
                filling = LONGEST_FILLING
            # Hardly compressible.
            noise = self._noise.randbytes(filling // 2).hex()
            record = flight(number, 400 if high else 200, noise)
            receipt = await self._client.publish("lossy", record, FLIGHT)
        self.published.append(Published(receipt.event_id, high))
        self._room.release()

    def expected_ids(self, *, high: bool) -> list[EventId]:
        found = [each.event_id for each in self.published if each.high or not high]
        return sorted(found, key=lambda event_id: event_id.sequence_number)


def check_received(
    received: Sequence[ReceivedEvent], publishers: Sequence[Publisher], *, high: bool = False
) -> None:
    """Each event came once, in its publisher's order, and no others."""
    ids = [event.event_id for event in received]
    for publisher in publishers:
        due = publisher.expected_ids(high=high)
        client = due[0].client_id
        assert [each for each in ids if each.client_id == client] == due
    assert len(ids) == sum(len(each.expected_ids(high=high)) for each in publishers)


async def wait_for_all(
    inboxes: Iterable[Inbox],
    publishers: Sequence[Publisher],
    *,
    before: int = 0,
    high: bool = False,
) -> None:
    """An earlier inbox got the first `before` events."""
    due = sum(len(publisher.expected_ids(high=high)) for publisher in publishers) - before
    for inbox in inboxes:
        await inbox.wait_until(lambda inbox=inbox: len(inbox.events) >= due)  # type: ignore[misc]


class LongestPause:
    """Longest time without an event of one publisher."""

    def __init__(self, inbox: Inbox, client_id: str) -> None:
        self._inbox = inbox
        self._client_id = client_id
        self._longest = 0.0
        self._task = asyncio.create_task(self._watch())

    async def stop(self) -> float:
        """Return the seconds."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        return self._longest

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        events, seen, since = self._inbox.events, 0, 0.0
        while True:
            await self._inbox.wait_until(lambda seen=seen: len(events) > seen)  # type: ignore[misc]
            now = loop.time()
            if any(each.event_id.client_id == self._client_id for each in events[seen:]):
                self._longest = max(self._longest, now - (since or now))
                since = now
            seen = len(events)
