from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from broker.client.asyncio_face import AsyncioClient, connect
from broker.client.received import Receipt, ReceivedEvent
from broker.client.subscription import Subscription
from broker.event.envelope import EventType
from tests.system.node_process import PATIENCE

if TYPE_CHECKING:
    # `tests.system.previous_client` runs this module on an older `broker` package.
    from broker.event.event_id import EventId

FLIGHT = EventType("flight", "1.0")
STREAM = "roaming.flights"
#: Between questions to a node, which would take all processors otherwise.
POLL_SECONDS = 0.05


def flight(number: int, altitude: int = 300, filling: str = "") -> bytes:
    return (
        b'<flight><id>UAL%d%s</id><flightleg status="active"><speed type="ground">512</speed>'
        b'<altitude type="reported" mode="plain">%d</altitude>'
        b"<coordinate><lat>4928N</lat><lon>12003W</lon></coordinate></flightleg></flight>"
    ) % (number, filling.encode(), altitude)


async def publish(client: AsyncioClient, first: int, last: int, filling: str = "") -> list[Receipt]:
    """Wait until the flights are durable."""
    async with asyncio.timeout(PATIENCE):
        published = [
            client.publish(STREAM, flight(number, filling=filling), FLIGHT)
            for number in range(first, last)
        ]
        return list(await asyncio.gather(*published))


def run_within(
    work: Coroutine[Any, Any, Any], seconds: float = 2 * PATIENCE, *, debug: bool = False
) -> None:
    """Run for at most some seconds.

    Errors that the loop reports fail the test.
    """
    errors: list[str] = []

    async def limited() -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: errors.append(f"{context['message']}: {context}")
        )
        async with asyncio.timeout(seconds):
            await work

    asyncio.run(limited(), debug=debug)
    assert not errors, errors


class Inbox:
    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self.events: list[ReceivedEvent] = []
        self._changed = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._read())

    @property
    def ids(self) -> list[EventId]:
        return [event.event_id for event in self.events]

    def counts(self) -> Counter[EventId]:
        return Counter(self.ids)

    async def wait_until(self, condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
        """The condition is evaluated after each arrival."""
        async with asyncio.timeout(seconds):
            while not condition():
                if self._task.done():
                    self._task.result()
                    raise AssertionError("the subscription is over")
                self._changed.clear()
                await self._changed.wait()

    async def wait_for_ids(self, expected: set[str]) -> None:
        await self.wait_until(lambda: expected <= set(map(str, self.ids)))

    async def wait_for_receipts(self, receipts: list[Receipt]) -> None:
        wanted = {receipt.event_id for receipt in receipts}
        await self.wait_until(lambda: len(self.events) >= len(wanted) and wanted <= set(self.ids))

    @property
    def is_over(self) -> bool:
        return self._task.done()

    async def wait_for_end(self) -> None:
        await self._task

    async def close(self) -> None:
        if self.is_over:
            return
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _read(self) -> None:
        try:
            async for event in self.subscription:
                self.events.append(event)
                self._changed.set()
        finally:
            self._changed.set()


class Bystander:
    """Traffic that must not be disturbed."""

    def __init__(self, client: AsyncioClient, inbox: Inbox, stream: str) -> None:
        self._client = client
        self._inbox = inbox
        self._stream = stream
        self._receipts: list[Receipt] = []
        self._disconnections: list[object] = []
        client.on_state = lambda up, error: None if up else self._disconnections.append(error)

    async def check_traffic(self, events: int = 5) -> None:
        """Each event arrives once, in order, over the same connection."""
        async with asyncio.timeout(PATIENCE):
            self._receipts += await asyncio.gather(
                *(self._client.publish(self._stream, flight(n), FLIGHT) for n in range(events))
            )
        await self._inbox.wait_for_receipts(self._receipts)
        assert self._inbox.ids == [receipt.event_id for receipt in self._receipts]
        assert not self._disconnections
        assert not self._inbox.subscription.gaps

    async def time_event(self) -> float:
        """Return the seconds from the publication of an event to its delivery."""
        arrived = len(self._inbox.events)
        began = time.monotonic()
        published = self._client.publish(self._stream, flight(arrived), FLIGHT)
        await self._inbox.wait_until(lambda: len(self._inbox.events) > arrived)
        seconds = time.monotonic() - began
        self._receipts.append(await published)
        return seconds


@contextlib.asynccontextmanager
async def checked_bystander(endpoint: str, **identity: str) -> AsyncIterator[Bystander]:
    async with connect(endpoint, **identity) as client:  # type: ignore[arg-type]
        await client.when_connected(PATIENCE)
        stream = f"bystander.{client.client_id.removeprefix('anonymous-')}"
        inbox = Inbox(await client.subscribe("true()", stream))
        one = Bystander(client, inbox, stream)
        try:
            await one.check_traffic()
            yield one
            await one.check_traffic()
        finally:
            await inbox.close()


async def ask_status(endpoint: str, **identity: str) -> dict[str, Any]:
    async with connect(endpoint, **identity) as client:  # type: ignore[arg-type]
        await client.when_connected(PATIENCE)
        answer: dict[str, Any] = await client.ask("status")
        return answer
