"""Questions of an account that take long, from many sessions."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from broker.client.asyncio_face import AsyncioClient, connect
from broker.errors import Overloaded
from broker.sessions.question_turns import MAX_WAITING
from tests.security.account_settings import BASE, BYSTANDER, account_toml, identity_of
from tests.security.bystander import measured_bystander
from tests.system.node_process import NodeProcess
from tests.system.traffic import run_within

pytestmark = pytest.mark.system

SESSIONS, SUBSCRIPTIONS = 8, 200
CONFIGURATION = BASE + account_toml("bad", subscribe=["a"]) + "[log]\nsync = false\n"


@pytest.mark.limit("questions", "account")
def test_questions_of_an_account_leave_the_node_time_for_others(tmp_path: Path) -> None:
    async def work(node: NodeProcess) -> None:
        async with AsyncExitStack() as stack:
            bystander = await stack.enter_async_context(
                measured_bystander(node.endpoint, **BYSTANDER)
            )
            clients = [
                await stack.enter_async_context(connect(node.endpoint, **identity_of("bad", n)))
                for n in range(SESSIONS)
            ]
            for number in range(SUBSCRIPTIONS):
                await clients[0].subscribe("true()", "a", durable=f"d{number}")
            refused = 0

            async def ask_again(client: AsyncioClient) -> None:
                nonlocal refused
                while True:
                    asked = (client.ask("durable-list") for _ in range(MAX_WAITING))
                    answers = await asyncio.gather(*asked, return_exceptions=True)
                    assert all(isinstance(each, dict | Overloaded) for each in answers)
                    refused += sum(isinstance(each, Overloaded) for each in answers)

            attacks = [asyncio.ensure_future(ask_again(each)) for each in clients]
            await bystander.measure(tries=3)
            assert not any(each.done() for each in attacks)
            assert refused
            for each in attacks:
                each.cancel()
            await asyncio.gather(*attacks, return_exceptions=True)

    with NodeProcess(tmp_path, CONFIGURATION) as node:
        run_within(work(node))
        assert "Traceback" not in node.log()
