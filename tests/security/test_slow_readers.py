"""Many clients that subscribe and read nothing."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from broker.client.asyncio_face import connect
from broker.wire import messages
from broker.wire.messages import Credit, Subscribe
from tests.security.bystander import measured_bystander
from tests.system.node_process import NodeProcess
from tests.system.raw_session import RawSession
from tests.system.traffic import FLIGHT, Inbox, ask_status, flight, run_within

pytestmark = pytest.mark.system

#: Each may have some 4 MiB on its way, and they share no encoding.
READERS = 40
EVENTS, FILLING = 48, 200_000
CONFIGURATION = """
[log]
sync = false
[queue]
total_bytes = "32MiB"
"""
#: Bytes. Sockets hold as much again as send buffers.
GROWTH = 100 << 20


@pytest.mark.limit("queues and send buffers of all clients and links of nodes", "node")
def test_queues_of_all_slow_readers_together_are_bounded(tmp_path: Path) -> None:
    async def work(node: NodeProcess) -> None:
        async with AsyncExitStack() as stack:
            bystander = await stack.enter_async_context(measured_bystander(node.endpoint))
            publisher = await stack.enter_async_context(connect(node.endpoint))
            durable = await stack.enter_async_context(
                connect(node.endpoint, client_id="durable", state=tmp_path / "state")
            )
            kept = Inbox(await durable.subscribe("true()", "large", durable="all"))
            for number in range(READERS):
                reader = await RawSession.open(node.port, f"slow-{number}")
                stack.callback(reader.close)
                await reader.send(messages.encode(Credit(1 << 40)))
                for subscription in range(number + 1, number + 3):
                    request = Subscribe(subscription, "large", "true()", {}, "", "new", (), 0)
                    await reader.send(messages.encode(request))
            before = await ask_status(node.endpoint)
            measuring = asyncio.ensure_future(bystander.measure())
            receipts = []
            for number in range(EVENTS):
                payload = flight(number, filling="x" * FILLING)
                receipts.append(await publisher.publish("large", payload, FLIGHT))
            await measuring
            await kept.wait_for_receipts(receipts)
            after = await ask_status(node.endpoint)
            await kept.close()
        (limit,) = (each for each in after["limits"] if each["name"] == "queue-memory")
        memory = [status["memory"]["private_bytes"] for status in (before, after)]
        assert limit["used"] <= limit["bound"] and limit["reached"] > 0
        assert memory[1] - memory[0] < GROWTH

    with NodeProcess(tmp_path, CONFIGURATION) as node:
        run_within(work(node))
