"""The client that moves from node to node, and its received events."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import attrs

from broker.client.asyncio_face import AsyncioClient, connect
from broker.client.received import Gap, ReceivedEvent
from broker.client.subscription import Subscription
from broker.event.envelope import Liveness
from broker.event.event_id import EventId
from broker.event.place import Place
from examples.network.subscribers import START, Arrivals

NAME = "roaming"


@attrs.define(eq=False)
class RoamingClient:
    """Client over several processes."""

    state: Path
    """Folder of its position and node, for its next process."""
    arrivals: Arrivals = attrs.field(factory=Arrivals)
    live: set[EventId] = attrs.field(factory=set)
    gaps: list[Gap] = attrs.field(factory=list)
    client: AsyncioClient | None = None
    _subscription: Subscription | None = None
    _reader: asyncio.Task[None] | None = None
    _newest: ReceivedEvent | None = None

    async def connect_and_subscribe(self, endpoint: str) -> None:
        """Continue after the last process."""
        self.client = connect(endpoint, client_id=NAME, state=self.state)
        await self.client.when_connected(START)
        self._subscription = await self.client.subscribe(durable=NAME, on_gap=self.gaps.append)
        self._reader = asyncio.create_task(self._read(self._subscription))

    async def leave(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reader
        if self._subscription is not None and self._newest is not None:
            self._subscription.processed(self._newest)
        if self.client is not None:
            await self.client.close()

    def has_processed(self, places: list[Place]) -> bool:
        """Duplicates of events up to these places have arrived by then."""
        assert self._subscription is not None
        return all(self._subscription.position.covers(place) for place in places)

    async def _read(self, subscription: Subscription) -> None:
        loop = asyncio.get_running_loop()
        async for event in subscription:
            self._newest = event
            self.arrivals.add(event.event_id, loop.time())
            if event.liveness is Liveness.LIVE:
                self.live.add(event.event_id)
