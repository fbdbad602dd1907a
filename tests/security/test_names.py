"""Accounts that use up the names that the parser keeps until the node ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.client.asyncio_face import connect
from broker.client.received import Receipt
from broker.errors import TooManyNames
from tests.security.account_settings import (
    ADMINISTRATOR,
    BASE,
    BYSTANDER,
    account_toml,
    identity_of,
)
from tests.security.bystander import measured_bystander
from tests.system.node_process import NodeProcess
from tests.system.traffic import FLIGHT, ask_status, flight, run_within

pytestmark = pytest.mark.system

#: Accounts that together use up the names of the node.
MANY, OF_EACH = 11, 9_900
CONFIGURATION = (
    BASE
    + account_toml("bad", publish=["names"])
    + account_toml("worse", publish=["names"])
    + account_toml("good", publish=["names"])
    + "".join(account_toml(f"many{number}", publish=["names"]) for number in range(MANY))
    + "[log]\nsync = false\n"
)


def named_flight(count: int, prefix: str) -> bytes:
    instructions = b"".join(b"<?%s%d?>" % (prefix.encode(), number) for number in range(count))
    return flight(1).replace(b"<id>", instructions + b"<id>")


async def publish(node: NodeProcess, account: str, payload: bytes, session: int = 0) -> Receipt:
    async with connect(node.endpoint, **identity_of(account, session)) as client:
        return await client.publish("names", payload, FLIGHT)


@pytest.mark.limit("names that no DTD declares", "account")
def test_an_account_with_too_many_names_is_refused_and_others_are_not(tmp_path: Path) -> None:
    async def attack(node: NodeProcess) -> None:
        async with measured_bystander(node.endpoint, **BYSTANDER) as bystander:
            for account in ("bad", "worse"):
                with pytest.raises(TooManyNames):
                    await publish(node, account, named_flight(105_000, "n"))
                # Small documents reach the bound, too, from any session of the account.
                with pytest.raises(TooManyNames):
                    for number in range(12):
                        await publish(
                            node, account, named_flight(1_000, f"{account}{number}-"), number
                        )
            await bystander.measure()
            assert await publish(node, "bad", flight(1))
            assert await publish(node, "good", named_flight(500, "other"))
        limits = (await ask_status(node.endpoint, **ADMINISTRATOR))["limits"]
        (share,) = (each for each in limits if each["name"] == "undeclared-names-of-account")
        assert 9_000 <= share["used"] <= share["bound"] and share["reached"] == 4

    async def publish_again(node: NodeProcess) -> None:
        assert await publish(node, "bad", named_flight(500, "again"))

    with NodeProcess(tmp_path, CONFIGURATION) as node:
        run_within(attack(node))
        node.stop()
        node.start()
        run_within(publish_again(node))


@pytest.mark.limit("names that no DTD declares", "node")
def test_names_of_all_accounts_are_bounded_and_each_keeps_a_few(tmp_path: Path) -> None:
    async def work(node: NodeProcess) -> None:
        async with measured_bystander(node.endpoint, **BYSTANDER) as bystander:
            for number in range(MANY - 1):
                names = named_flight(OF_EACH, f"m{number}-")
                assert await publish(node, f"many{number}", names)
            with pytest.raises(TooManyNames):
                await publish(node, f"many{MANY - 1}", named_flight(OF_EACH, "last-"))
            await bystander.measure()
            assert await publish(node, f"many{MANY - 1}", named_flight(50, "few-"))
        limits = (await ask_status(node.endpoint, **ADMINISTRATOR))["limits"]
        (total,) = (each for each in limits if each["name"] == "undeclared-names")
        assert OF_EACH * (MANY - 2) < total["used"] <= total["bound"] and total["reached"] == 1

    with NodeProcess(tmp_path, CONFIGURATION) as node:
        run_within(work(node))
