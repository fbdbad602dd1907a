"""Subscribers at several nodes, and their received events."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import attrs

from broker.client.asyncio_face import AsyncioClient, connect
from broker.client.received import ReceivedEvent
from broker.client.subscription import Subscription
from broker.event.event_id import EventId
from broker.event.place import Place

#: In seconds, on a busy machine.
START = 60.0


@attrs.define(eq=False)
class Arrivals:
    events: list[EventId] = attrs.field(factory=list)
    times: list[float] = attrs.field(factory=list)

    def add(self, event_id: EventId, when: float) -> None:
        self.events.append(event_id)
        self.times.append(when)

    @property
    def duplicates(self) -> int:
        return len(self.events) - len(set(self.events))

    @property
    def out_of_order(self) -> int:
        """Number of events after a later one of the publisher."""
        newest, count = 0, 0
        for event_id in self.events:
            count += event_id.sequence_number < newest
            newest = max(newest, event_id.sequence_number)
        return count

    def missing(self, expected: Iterable[EventId]) -> int:
        return len(set(expected) - set(self.events))

    def unwanted(self, expected: Iterable[EventId]) -> int:
        """Return the number of distinct other events."""
        return len(set(self.events) - set(expected))

    def longest_silence(self, since: float, until: float) -> float:
        """Return the longest time between two events, or an event and `until`, that ends after
        `since`."""
        early = max((time for time in self.times if time <= since), default=since)
        times = [early, *(time for time in self.times if since < time < until), until]
        return max(late - early for early, late in pairwise(times))

    def slowest(self, sent: Mapping[EventId, float]) -> float:
        """Return the longest delay in seconds."""
        delays = [time - sent[each] for each, time in zip(self.events, self.times, strict=True)]
        return max(delays, default=0.0)


@attrs.define(eq=False)
class Subscriber:
    node: str
    query: str
    expected: Sequence[int]
    """Indices of the items that match according to lxml."""
    durable: str = ""
    arrivals: Arrivals = attrs.field(factory=Arrivals)
    away: bool = False
    """True if it was absent for a while."""
    _client: AsyncioClient | None = None
    _subscription: Subscription | None = None
    _reader: asyncio.Task[None] | None = None
    _newest: ReceivedEvent | None = None

    async def connect_and_subscribe(self, endpoint: str) -> None:
        """Events published afterwards are not missed."""
        client = self._client = connect(endpoint, client_id=f"subscriber-at-{self.node}")
        await client.when_connected(START)
        subscription = await client.subscribe(self.query, durable=self.durable)
        self._subscription = subscription
        self._reader = asyncio.create_task(self._read(subscription))
        await subscription.flowing

    async def leave(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reader
        if self._subscription is not None and self._newest is not None and self.durable:
            self._subscription.processed(self._newest)
        if self._client is not None:
            await self._client.close()

    def has_processed(self, place: Place) -> bool:
        """Duplicates of events up to `place` have arrived by then."""
        return self._subscription is not None and self._subscription.position.covers(place)

    def progress(self) -> tuple[object, ...]:
        """Return a value that changes with any progress."""
        assert self._subscription is not None
        return (self._subscription.position, len(self.arrivals.events))

    async def _read(self, subscription: Subscription) -> None:
        loop = asyncio.get_running_loop()
        async for event in subscription:
            self._newest = event
            self.arrivals.add(event.event_id, loop.time())
