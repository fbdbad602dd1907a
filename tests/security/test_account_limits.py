"""What one account may use beside others: rate, subscriptions, durable subscriptions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest

from broker.client.asyncio_face import connect
from broker.errors import TooManySubscriptions
from broker.identity import hash_secret
from tests.security.bystander import measured_bystander
from tests.system.node_process import PATIENCE, NodeProcess
from tests.system.traffic import FLIGHT, flight, run_within

pytestmark = pytest.mark.system

RATE = 1000
SECRET = "open sesame"
ALICE: dict[str, Any] = {"account": "alice", "secret": SECRET, "client_id": "alice"}


def mallory(number: int) -> dict[str, Any]:
    return {"account": "mallory", "secret": SECRET, "client_id": f"mallory-{number}"}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    secret = hash_secret(SECRET)
    rights = 'publish = [">"]\nsubscribe = [">"]\n'
    configuration = (
        "[log]\nsync = false\n[limits]\nmax_subscriptions_per_account = 3\n"
        f"max_durables_per_account = 3\naccount_events_per_second = {RATE}\n"
        f'[accounts.alice]\nsecret = "{secret}"\nclient_ids = ["alice", "alice-2"]\n{rights}'
        "administer = true\n"
        f'[accounts.mallory]\nsecret = "{secret}"\nclient_ids = ["mallory-*"]\n{rights}'
    )
    with NodeProcess(tmp_path_factory.mktemp("shared"), configuration) as one:
        yield one
        assert "Traceback" not in one.log()


@pytest.mark.limit("events and bytes published", "account")
def test_account_beyond_its_rate_waits_and_delays_no_other(node: NodeProcess) -> None:
    async def work() -> None:
        clients = [connect(node.endpoint, **mallory(number)) for number in range(3)]
        async with measured_bystander(node.endpoint, **ALICE) as bystander:
            for each in clients:
                await each.when_connected(PATIENCE)
            began = time.monotonic()
            receipts = [
                asyncio.ensure_future(each.publish("flood", flight(number), FLIGHT))
                for each in clients
                for number in range(2 * RATE)
            ]
            await bystander.measure()
            # Nothing fails, and the rest follows at the rate.
            first = await asyncio.gather(*receipts[: RATE // 3])
            assert all(each.place is not None for each in first)
            taken = sum(each.done() for each in receipts)
            assert taken <= RATE * (1.1 + time.monotonic() - began)
            status = await ask(node)
            (limit,) = (x for x in status["limits"] if x["name"] == "account-events-per-second")
            assert limit["reached"] >= 1
            for receipt in receipts:
                receipt.cancel()
            for client in clients:
                await client.close()
            await asyncio.gather(*receipts, return_exceptions=True)

    run_within(work())


async def ask(node: NodeProcess) -> dict[str, Any]:
    async with connect(node.endpoint, **ALICE | {"client_id": "alice-2"}) as client:
        await client.when_connected(PATIENCE)
        answer: dict[str, Any] = await client.ask("status")
        return answer


@pytest.mark.limit("subscriptions", "account")
def test_subscriptions_of_an_account_are_bounded_together(node: NodeProcess) -> None:
    async def work() -> None:
        async with (
            measured_bystander(node.endpoint, **ALICE) as bystander,
            connect(node.endpoint, **mallory(1)) as one,
            connect(node.endpoint, **mallory(2)) as other,
        ):
            await one.subscribe("true()", "a")
            await one.subscribe("true()", "b")
            third = await other.subscribe("true()", "c")
            for client in (one, other):
                with pytest.raises(TooManySubscriptions, match="of account mallory"):
                    await client.subscribe("true()", "d")
            third.unsubscribe()
            await other.subscribe("true()", "d")
            await bystander.measure()

    run_within(work())


@pytest.mark.limit("durable subscriptions, and one owner for each of their clients", "account")
def test_durable_subscriptions_of_an_account_are_bounded_over_its_clients_and_restarts(
    node: NodeProcess,
) -> None:
    async def make(number: int) -> None:
        async with connect(node.endpoint, **mallory(number)) as client:
            await client.subscribe("true()", "a", durable="d")

    async def fill() -> None:
        for number in range(3):
            await make(number)

    async def exceed() -> None:
        async with measured_bystander(node.endpoint, **ALICE) as bystander:
            with pytest.raises(TooManySubscriptions, match="of account mallory"):
                await make(4)
            await make(2)
            await bystander.measure()

    run_within(fill())
    node.kill()
    node.start()
    run_within(exceed())
