"""Subscriptions that begin with more last events than the node has memory for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker.client.asyncio_face import connect
from broker.client.received import last
from broker.errors import ReplayTooLarge
from tests.security.account_settings import BASE, BYSTANDER, account_toml, identity_of
from tests.security.bystander import measured_bystander
from tests.system.node_process import NodeProcess
from tests.system.traffic import FLIGHT, flight, run_within

pytestmark = pytest.mark.system

EVENTS, BYTES, SUBSCRIPTIONS = 200, 100_000, 8
CONFIGURATION = (
    BASE
    + account_toml("bad", publish=["a"], subscribe=["a"])
    + f"[log]\nsync = false\n[queue]\ntotal_bytes = {EVENTS * BYTES}\n"
)


@pytest.mark.limit("queues and send buffers of all clients and links of nodes", "node")
def test_last_events_take_no_more_than_the_memory_of_queues(tmp_path: Path) -> None:
    async def work(node: NodeProcess) -> None:
        large = flight(1).replace(b"<id>", b"<id>" + b"x" * BYTES)
        async with (
            measured_bystander(node.endpoint, **BYSTANDER) as bystander,
            connect(node.endpoint, **identity_of("bad")) as client,
        ):
            for _ in range(EVENTS // 20):
                await asyncio.gather(*(client.publish("a", large, FLIGHT) for _ in range(20)))

            async def read_last() -> int:
                subscription = await client.subscribe("true()", "a", start=last(EVENTS))
                with pytest.raises(ReplayTooLarge):
                    async for _ in subscription:
                        raise AssertionError("an event came")
                return 1

            attacks = [asyncio.ensure_future(read_last()) for _ in range(SUBSCRIPTIONS)]
            await bystander.measure(tries=3)
            assert await asyncio.gather(*attacks) == [1] * SUBSCRIPTIONS

    with NodeProcess(tmp_path, CONFIGURATION) as node:
        run_within(work(node))
        assert "Traceback" not in node.log()
