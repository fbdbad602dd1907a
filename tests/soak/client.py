"""`python -m tests.soak.client JSON`: one client process with a notebook.

At SIGTERM a publisher waits for its receipts and a subscriber closes its client. At SIGUSR1 a
publisher uses the next version of a type that is unknown to the nodes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from pathlib import Path
from random import Random
from typing import Any

from broker.cli.recovery_progress import INTERVAL, ask_recoveries
from broker.client.asyncio_face import AsyncioClient, connect
from broker.client.effects import Item
from broker.client.received import ALL, ReceivedEvent
from broker.client.subscription_state import SubscriptionState
from broker.client.worker import Working
from broker.errors import BrokerError
from broker.event.envelope import EventType, SecurityLevel
from broker.event.event_id import EventId
from broker.event.place import Position
from broker.testing.flights import flight
from broker.testing.guarantees import Kind
from broker.testing.guarantees.records import digest_of
from broker.wire.codec import WireTimes
from broker.wire.messages import Flowing, Subscribe, Subscribed
from tests.soak.interests import ALL_INTERESTS, ALTITUDES, STREAMS
from tests.soak.layout import SECRET
from tests.soak.notebook import Notebook, key_fields

#: So that a batch can not hold all waiting events.
LARGE = 0.05


class Publisher:
    def __init__(self, client: AsyncioClient, notes: Notebook, said: dict[str, Any]) -> None:
        self._client, self._notes = client, notes
        self._random = Random(said["seed"])
        self._rate = said["rate"]
        self._dtds = said["dtds"]
        self._next: dict[str, Any] = {}
        self._version = said["version"]
        self.stopped = asyncio.Event()
        enqueue: Any = client._enqueue

        def recorded(document: bytes, event_id: EventId, time: int | None) -> Any:
            # The checker must know each delivered event.
            key, digest = key_fields(event_id), digest_of(document)
            notes.note("published", key=key, digest=digest, **self._next)
            return enqueue(document, event_id, time)

        client._enqueue = recorded  # type: ignore[method-assign]

    def next_version(self) -> None:
        self._version += 1

    async def run(self) -> None:
        waiting: set[asyncio.Task[None]] = set()
        while not self.stopped.is_set():
            # For a long outage.
            if len(waiting) < 2000:
                task = asyncio.create_task(self._publish())
                waiting.add(task)
                task.add_done_callback(waiting.discard)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stopped.wait(), 1 / self._rate)
        await asyncio.gather(*waiting)

    async def _publish(self) -> None:
        random = self._random
        stream, altitude = random.choice(STREAMS), random.choice(ALTITUDES)
        level = random.choice(list(SecurityLevel))
        name, version, pointer = "flight", "1.0", None
        if self._version and random.random() < 0.3:
            name, version = "soak", f"1.{self._version}"
            pointer = f"{self._dtds}soak-{version}.dtd"
        size = 20_000 if random.random() < LARGE else random.randrange(200)
        payload = flight(altitude, size).replace(b"flight>", f"{name}>".encode())
        self._next = {
            "stream": stream,
            "type": f"{name} {version}",
            "level": level.rank,
            "value": altitude,
        }
        kind = EventType(name, version, security_level=level)
        number = self._client._mint.last_sequence_number + 1
        try:
            receipt = await self._client.publish(stream, payload, kind, system_id=pointer)
        except BrokerError as error:
            self._notes.note("refused", number=number, error=repr(error))
        else:
            self._notes.note_receipt(receipt)


async def publish(said: dict[str, Any], client: AsyncioClient, notes: Notebook) -> None:
    publisher = Publisher(client, notes, said)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, publisher.stopped.set)
    loop.add_signal_handler(signal.SIGUSR1, publisher.next_version)
    await publisher.run()
    await client.close()
    notes.note("closed")


def trace_positions(notes: Notebook) -> None:
    """Note each subscription's start, warnings, flow and progress.

    The checker needs only the warnings.
    """
    subscribe, receive_subscribed = (
        SubscriptionState.begin_session,
        SubscriptionState.receive_subscribed,
    )
    receive_flowing, receive_progress = (
        SubscriptionState.receive_flowing,
        SubscriptionState.receive_progress,
    )

    def note_subscribe(self: SubscriptionState) -> Subscribe:
        message = subscribe(self)
        notes.note("subscribes", former=message.previous_address, position=message.position)
        return message

    def note_accepted(self: SubscriptionState, message: Subscribed) -> list[Item]:
        notes.note("accepted", warnings=message.warnings)
        return receive_subscribed(self, message)

    def note_flowing(self: SubscriptionState, message: Flowing, node: str) -> list[Item]:
        notes.note("flows", node=node, position=message.cut)
        return receive_flowing(self, message, node)

    def note_progress(
        self: SubscriptionState, position: Position, times: WireTimes = ()
    ) -> list[Item]:
        notes.note("moved", position=position.to_wire())
        return receive_progress(self, position, times)

    SubscriptionState.begin_session = note_subscribe  # type: ignore[method-assign]
    SubscriptionState.receive_subscribed = note_accepted  # type: ignore[method-assign]
    SubscriptionState.receive_flowing = note_flowing  # type: ignore[method-assign]
    SubscriptionState.receive_progress = note_progress  # type: ignore[method-assign]


async def subscribe(said: dict[str, Any], client: AsyncioClient, notes: Notebook) -> None:
    trace_positions(notes)
    interest = ALL_INTERESTS[said["interest"]]
    durable = "" if interest.kind in (Kind.TRANSIENT, Kind.FROM_ALL) else "d"
    start = ALL if interest.kind is Kind.FROM_ALL else None

    async def follow() -> None:
        subscription = await client.subscribe(
            interest.query, interest.pattern, durable=durable, start=start, on_gap=notes.note_gap
        )
        notes.note("flowing", cut={} if start is ALL else dict(subscription.cut.marks))
        waiting_task = asyncio.create_task(caught_up()) if start is ALL else None
        async for event in subscription:
            notes.note_delivery(event)
        notes.note("error", error="the subscription has ended by itself")
        if waiting_task is not None:
            waiting_task.cancel()

    async def caught_up() -> None:
        while (remaining := await ask_recoveries(client)) is None or remaining:
            await asyncio.sleep(INTERVAL)
        notes.note("caught-up")

    async def handle(event: ReceivedEvent) -> None:
        notes.note_delivery(event)

    async def work() -> None:
        await client.when_connected()
        # The first cut is unknown.
        asyncio.get_running_loop().call_later(3.0, notes.note, "flowing")
        working = Working(pause=0.1)
        await client.work(
            handle,
            interest.query,
            interest.pattern,
            durable="d",
            working=working,
            on_gap=notes.note_gap,
        )

    task = asyncio.create_task(work() if interest.kind is Kind.WORKING else follow())
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        if await client.close():
            # Otherwise events may repeat.
            notes.note("closed")
    except BrokerError as error:
        notes.note("error", error=repr(error))


async def main(said: dict[str, Any]) -> None:
    state = Path(said["state"]) if said["state"] else None
    account = said["client"].split("-")[0]
    notes = Notebook(Path(said["notes"]))
    client = connect(
        *said["endpoints"], client_id=said["client"], account=account, secret=SECRET, state=state
    )
    await (subscribe if "interest" in said else publish)(said, client, notes)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
