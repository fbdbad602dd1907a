"""A client whose queries are each a little slow, through a real node."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker.client.asyncio_face import connect
from broker.errors import QueryTooExpensive
from tests.system.node_process import NodeProcess
from tests.system.traffic import FLIGHT, Inbox, ask_status, bystander, flight, within

pytestmark = pytest.mark.system

#: No shape decides it, and there is no condition that has to hold first.
UNDECIDED = "count(//flightleg[count(//flightleg[altitude != {0}]) > 0]) != 5{0}"


def test_who_has_very_many_slow_queries_loses_most_and_nobody_else_does(tmp_path: Path) -> None:
    async def work(node: NodeProcess) -> None:
        async with (
            bystander(node.endpoint),
            connect(node.endpoint) as publisher,
            connect(node.endpoint) as greedy,
            connect(node.endpoint) as modest,
        ):
            kept = Inbox(await modest.subscribe(UNDECIDED.format(1_000), "slow"))
            asked = [
                Inbox(await greedy.subscribe(UNDECIDED.format(n), "slow")) for n in range(1_000)
            ]
            receipts = []
            for portion in range(20):
                receipts += await asyncio.gather(
                    *(
                        publisher.publish("slow", flight(50 * portion + n), FLIGHT)
                        for n in range(50)
                    )
                )
            await kept.until_received(receipts)
            assert kept.ids == [receipt.event_id for receipt in receipts]
            ended = [each for each in asked if each.is_over]
            # Each takes some 0.02 ms, and half a millisecond is free.
            assert len(ended) > 500
            for each in ended:
                with pytest.raises(QueryTooExpensive, match="of this client"):
                    await each.end()
            status = await ask_status(node.endpoint)
            assert status["matcher"]["suspended_queries"] == len(ended)
            for each in (kept, *asked):
                await each.close()

    with NodeProcess(tmp_path) as node:
        within(work(node))
