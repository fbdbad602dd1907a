"""Accounts that use up the names that the parser keeps until the node ends."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker.client.asyncio_face import AsyncioClient, connect
from broker.client.received import ALL, Receipt
from tests.security.account_settings import (
    ADMINISTRATOR,
    BASE,
    BYSTANDER,
    account_toml,
    identity_of,
)
from tests.security.bystander import measured_bystander
from tests.system.node_process import PATIENCE, NodeProcess
from tests.system.traffic import FLIGHT, Inbox, ask_status, flight, run_within

pytestmark = pytest.mark.system

#: Accounts that together use up the names of the node.
ACCOUNTS, OF_EACH = 11, 9_900
CONFIGURATION = (
    BASE
    + account_toml("bad", publish=["names"])
    + account_toml("good", publish=["names"], subscribe=["names"])
    + "".join(account_toml(f"many{number}", publish=["names"]) for number in range(ACCOUNTS))
    + "[log]\nsync = false\n"
)
#: `tests/matching/test_reference_matcher.py` measures the memory of further ones.
MANY, DOCUMENTS, FILLING = 16_000, 4, 10
QUERY = "count(//id) = 1"


def named_flight(count: int, prefix: str) -> bytes:
    instructions = b"".join(b"<?%s%d?>" % (prefix.encode(), number) for number in range(count))
    return flight(1).replace(b"<id>", instructions + b"<id>")


async def publish(client: AsyncioClient, payload: bytes) -> Receipt:
    return await client.publish("names", payload, FLIGHT)


async def publish_as(node: NodeProcess, account: str, payload: bytes) -> None:
    async with connect(node.endpoint, **identity_of(account)) as client:
        assert await publish(client, payload)


@pytest.mark.limit("names that no DTD declares", "account")
def test_an_account_beyond_its_share_of_names_is_served_and_slows_nobody(
    tmp_path: Path,
) -> None:
    async def attack(node: NodeProcess) -> None:
        async with (
            connect(node.endpoint, **identity_of("bad")) as bad,
            connect(node.endpoint, **identity_of("good")) as good,
            measured_bystander(node.endpoint, **BYSTANDER) as bystander,
        ):
            inbox = Inbox(await good.subscribe(QUERY, "names"))
            for number in range(DOCUMENTS):
                assert await publish(bad, named_flight(MANY, chr(97 + number)))
            # They use up the share.
            for number in range(FILLING):
                assert await publish(bad, named_flight(1_000, f"filling{number}-"))
            measuring = asyncio.ensure_future(bystander.measure())
            count = 0
            while not measuring.done():
                assert await publish(bad, named_flight(100, f"small{count}-"))
                count += 1
            await measuring
            assert await publish(good, named_flight(500, "other"))
            await inbox.wait_until(lambda: len(inbox.events) > DOCUMENTS + FILLING + count)
        status = await ask_status(node.endpoint, **ADMINISTRATOR)
        limits = {each["name"]: each for each in status["limits"]}
        share = limits["undeclared-names-of-account"]
        assert share["used"] <= share["bound"] and share["reached"] >= DOCUMENTS + count
        assert limits["undeclared-names"]["used"] <= 2 * share["bound"]

    async def read_again(node: NodeProcess) -> None:
        async with connect(node.endpoint, **identity_of("good")) as good:
            inbox = Inbox(await good.subscribe(QUERY, "names", start=ALL))
            async with asyncio.timeout(PATIENCE):
                await inbox.wait_until(lambda: len(inbox.events) > DOCUMENTS)
            assert await publish(good, named_flight(500, "again"))

    with NodeProcess(tmp_path, CONFIGURATION) as node:
        run_within(attack(node), 2 * PATIENCE)
        node.stop()
        node.start()
        run_within(read_again(node), 2 * PATIENCE)


@pytest.mark.limit("names that no DTD declares", "node")
def test_stored_names_of_all_accounts_are_bounded_and_each_stores_a_few(tmp_path: Path) -> None:
    async def work(node: NodeProcess) -> None:
        async with measured_bystander(node.endpoint, **BYSTANDER) as bystander:
            for number in range(ACCOUNTS - 1):
                await publish_as(node, f"many{number}", named_flight(OF_EACH, f"m{number}-"))
            last = f"many{ACCOUNTS - 1}"
            await publish_as(node, last, named_flight(OF_EACH, "last-"))
            await bystander.measure()
            await publish_as(node, last, named_flight(50, "few-"))
        limits = (await ask_status(node.endpoint, **ADMINISTRATOR))["limits"]
        (total,) = (each for each in limits if each["name"] == "undeclared-names")
        assert OF_EACH * (ACCOUNTS - 2) < total["used"] <= total["bound"] and total["reached"] == 1

    with NodeProcess(tmp_path, CONFIGURATION) as node:
        run_within(work(node))
