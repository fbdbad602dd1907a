"""One account with many sessions and expensive queries."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from broker.client.asyncio_face import AsyncioClient, connect
from broker.client.received import ALL, Receipt
from broker.errors import QueryTooExpensive
from tests.security.account_settings import (
    ADMINISTRATOR,
    BASE,
    BYSTANDER,
    account_toml,
    identity_of,
)
from tests.security.bystander import measured_bystander
from tests.system.node_process import NodeProcess
from tests.system.traffic import FLIGHT, Inbox, ask_status, flight, run_within

pytestmark = pytest.mark.system

#: Only lxml evaluates it, in about 0.02 ms; each session may use 0.5 ms for an event and more.
UNDECIDED = "count(//flightleg[count(//flightleg[altitude != {0}]) > 0]) {1} 5{0}"
LEG = b'<flightleg status="active"><altitude type="reported" mode="plain">9</altitude></flightleg>'
#: With these it takes more than 1 ms.
LEGS, RECOVERING = 40, 5
SESSIONS, QUERIES, EVENTS = 15, 40, 100
CONFIGURATION = (
    BASE
    + account_toml("greedy", subscribe=["slow"])
    + account_toml("modest", subscribe=["slow"])
    + "[log]\nsync = false\n"
)


async def publish_all(publisher: AsyncioClient) -> list[Receipt]:
    return [await publisher.publish("slow", flight(number), FLIGHT) for number in range(EVENTS)]


@pytest.mark.limit("time of queries", "account")
def test_sessions_of_one_account_share_its_time_for_queries(tmp_path: Path) -> None:
    async def work(node: NodeProcess) -> None:
        async with AsyncExitStack() as stack:
            bystander = await stack.enter_async_context(
                measured_bystander(node.endpoint, **BYSTANDER)
            )
            publisher = await stack.enter_async_context(connect(node.endpoint, **ADMINISTRATOR))
            modest = await stack.enter_async_context(
                connect(node.endpoint, **identity_of("modest"))
            )
            kept = Inbox(await modest.subscribe(UNDECIDED.format(1_000, "!="), "slow"))
            greedy: list[Inbox] = []
            for session in range(SESSIONS):
                client = await stack.enter_async_context(
                    connect(node.endpoint, **identity_of("greedy", session))
                )
                found = await asyncio.gather(
                    *(
                        client.subscribe(UNDECIDED.format(n + session * QUERIES, "="), "slow")
                        for n in range(QUERIES)
                    )
                )
                greedy += map(Inbox, found)
            receipts = await publish_all(publisher)
            # The account has used up its debt, which it may have once.
            measuring = asyncio.ensure_future(bystander.measure())
            receipts += await publish_all(publisher)
            await measuring
            await kept.wait_for_receipts(receipts)
            ended = [each for each in greedy if each.is_over]
            assert len(ended) > SESSIONS * QUERIES / 2
            for each in ended:
                with pytest.raises(QueryTooExpensive, match="account"):
                    await each.wait_for_end()
            for each in (kept, *greedy):
                await each.close()

    with NodeProcess(tmp_path, CONFIGURATION) as node:
        run_within(work(node))


@pytest.mark.limit("matching of logged events: recoveries, catching up", "node")
def test_recoveries_of_one_account_delay_neither_live_events_nor_those_of_another(
    tmp_path: Path,
) -> None:
    large = flight(1).replace(b"<flightleg", LEG * LEGS + b"<flightleg", 1)

    async def work(node: NodeProcess) -> None:
        async with AsyncExitStack() as stack:
            bystander = await stack.enter_async_context(
                measured_bystander(node.endpoint, **BYSTANDER)
            )
            publisher, modest, *greedy = [
                await stack.enter_async_context(connect(node.endpoint, **each))
                for each in (
                    *(ADMINISTRATOR, identity_of("modest")),
                    *(identity_of("greedy", session) for session in range(RECOVERING)),
                )
            ]
            receipts = [await publisher.publish("slow", large, FLIGHT) for _ in range(EVENTS)]
            attacks = [
                asyncio.ensure_future(client.subscribe(UNDECIDED.format(n, "="), "slow", start=ALL))
                for n in range(QUERIES)
                for client in greedy
            ]
            await bystander.measure(tries=3)
            kept = Inbox(await modest.subscribe(UNDECIDED.format(0, "!="), "slow", start=ALL))
            await kept.wait_for_receipts(receipts)
            matched = (await ask_status(node.endpoint, **ADMINISTRATOR))["matcher"]["evaluations"]
            assert matched < len(attacks) * EVENTS / 2
            await kept.close()
            for each in attacks:
                each.cancel()
            await asyncio.gather(*attacks, return_exceptions=True)

    with NodeProcess(tmp_path, CONFIGURATION) as node:
        run_within(work(node))
