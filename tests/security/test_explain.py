"""Explanations of large events with expensive queries."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from broker.client.asyncio_face import connect
from broker.errors import Overloaded, TooLarge
from broker.event.event_id import EventId
from broker.event.writer import write_event
from broker.tracing.explanation_answers import MAX_EVENT_BYTES, MAX_WAITING, MAX_WAITING_OF_HOLDER
from tests.security.account_settings import BASE, BYSTANDER, account_toml, identity_of
from tests.security.bystander import measured_bystander
from tests.system.node_process import NodeProcess
from tests.system.traffic import FLIGHT, flight, run_within

pytestmark = pytest.mark.system

#: More than ask two explanations each without a refusal.
MANY = MAX_WAITING // MAX_WAITING_OF_HOLDER + 2
CONFIGURATION = (
    BASE
    + account_toml("bad", subscribe=["large"])
    + "".join(account_toml(f"many{number}") for number in range(MANY))
    + "[log]\nsync = false\n[limits]\nmax_markup = 1000000\n"
)
SUBSCRIPTIONS = 48
LEG = b'<flightleg status="active"><altitude type="reported" mode="plain">9</altitude></flightleg>'
QUERY = "//flightleg[count(preceding::altitude[. > 5]) > {0}] or //altitude[contains(., '{0}')]"


def event(size: int) -> bytes:
    many = LEG * (size // len(LEG))
    payload = flight(1).replace(b"<flightleg", many + b"<flightleg", 1)
    return write_event(EventId("bad-0", 1, 1, 1), "large", FLIGHT, payload)


@pytest.mark.limit("explanations", "account")
def test_explanations_of_large_events_stop_nobody(tmp_path: Path) -> None:
    async def work(node: NodeProcess) -> None:
        async with (
            measured_bystander(node.endpoint, **BYSTANDER) as bystander,
            connect(node.endpoint, **identity_of("bad")) as client,
        ):
            for number in range(SUBSCRIPTIONS):
                await client.subscribe(QUERY.format(number), "large")
            with pytest.raises(TooLarge):
                await client.ask("explain", event(MAX_EVENT_BYTES), client="bad-0")
            document = event(MAX_EVENT_BYTES - 10_000)
            explained = asyncio.Condition()

            async def explain_again() -> None:
                while True:
                    try:
                        answer = await client.ask(
                            "explain", document, client="bad-0", query=QUERY.format(1)
                        )
                    except Overloaded:
                        # Others wait for theirs.
                        async with explained:
                            await explained.wait()
                        continue
                    rows = answer["client"]
                    assert len(rows["subscriptions"]) + rows["left_out"] == SUBSCRIPTIONS
                    async with explained:
                        explained.notify_all()

            attacks = [asyncio.ensure_future(explain_again()) for _ in range(4)]
            await bystander.measure()
            async with explained:
                await explained.wait()
            for each in attacks:
                each.cancel()
            assert await asyncio.gather(*attacks, return_exceptions=True)
            for each in attacks:
                assert each.cancelled()

    with NodeProcess(tmp_path, CONFIGURATION) as node:
        run_within(work(node))


@pytest.mark.limit("explanations", "node")
def test_explanations_of_many_accounts_are_bounded(tmp_path: Path) -> None:
    async def work(node: NodeProcess) -> None:
        async with AsyncExitStack() as stack:
            bystander = await stack.enter_async_context(
                measured_bystander(node.endpoint, **BYSTANDER)
            )
            clients = [
                await stack.enter_async_context(connect(node.endpoint, **identity_of(f"many{n}")))
                for n in range(MANY)
            ]
            document = event(MAX_EVENT_BYTES - 10_000)
            asked = [
                asyncio.ensure_future(client.ask("explain", document, query=QUERY.format(1)))
                for client in clients
                for _ in range(MAX_WAITING_OF_HOLDER)
            ]
            await bystander.measure(tries=3)
            most = len(asked) - MAX_WAITING
            refused = [each for each in asked if each.done() and each.exception() is not None]
            assert 0 < len(refused) <= most
            for each in refused:
                assert isinstance(each.exception(), Overloaded)
            for each in asked:
                each.cancel()
            await asyncio.gather(*asked, return_exceptions=True)

    with NodeProcess(tmp_path, CONFIGURATION) as node:
        run_within(work(node))
