from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker.client.asyncio_face import connect
from broker.errors import QueryTooExpensive
from tests.system.node_process import NodeProcess
from tests.system.traffic import FLIGHT, Inbox, ask_status, checked_bystander, flight, run_within

pytestmark = pytest.mark.system

#: Only lxml evaluates it.
UNDECIDED = "count(//flightleg[count(//flightleg[altitude != {0}]) > 0]) != 5{0}"


def test_many_slow_queries_cost_only_their_own_client(tmp_path: Path) -> None:
    async def work(node: NodeProcess) -> None:
        async with (
            checked_bystander(node.endpoint),
            connect(node.endpoint) as publisher,
            connect(node.endpoint) as greedy,
            connect(node.endpoint) as modest,
        ):
            modest_inbox = Inbox(await modest.subscribe(UNDECIDED.format(1_000), "slow"))
            greedy_inboxes = [
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
            await modest_inbox.wait_for_receipts(receipts)
            assert modest_inbox.ids == [receipt.event_id for receipt in receipts]
            ended = [each for each in greedy_inboxes if each.is_over]
            # A query takes about 0.02 ms, and half a millisecond is free.
            assert len(ended) > 500
            for each in ended:
                with pytest.raises(QueryTooExpensive, match="of this account or client"):
                    await each.wait_for_end()
            status = await ask_status(node.endpoint)
            assert status["matcher"]["suspended_queries"] == len(ended)
            for each in (modest_inbox, *greedy_inboxes):
                await each.close()

    with NodeProcess(tmp_path) as node:
        run_within(work(node))
