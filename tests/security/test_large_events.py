"""Events for whose matching the node stops, and expensive queries on them."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest

from broker.client.asyncio_face import AsyncioClient, connect
from broker.errors import QueryTooExpensive, TooLarge
from broker.event.envelope import EventType
from broker.matching.document_limits import MAX_MARKUP
from tests.security.account_settings import (
    ADMINISTRATOR,
    BASE,
    BYSTANDER,
    account_toml,
    identity_of,
)
from tests.security.bystander import measured_bystander
from tests.system.node_process import PATIENCE, NodeProcess
from tests.system.traffic import ask_status, run_within

pytestmark = pytest.mark.system

ODD = EventType("odd", "1.0")
#: Markup of an envelope and an outer element.
OUTER = 100
#: It compares all elements with all others.
EXPENSIVE = "//*[count(following::*[. = '{0}']) = 100000] or //@a1[count(following::*) = {0}]"
CONFIGURATION = (
    BASE
    + account_toml("bad", publish=["large"], subscribe=["large"])
    + '[log]\nsync = false\n[types]\nundescribed = "accept"\n'
)


def elements(count: int) -> bytes:
    return b"<r>" + b"<a/>" * count + b"</r>"


def attributes(count: int) -> bytes:
    element = b"<a " + b" ".join(b'a%d=""' % number for number in range(250)) + b"/>"
    return b"<r>" + element * (count // 251) + b"</r>"


async def subscribe_again(client: AsyncioClient, query: str) -> None:
    """Subscribe whenever the query has turned out too expensive."""
    while True:
        with suppress(QueryTooExpensive):
            async for _ in await client.subscribe(query, "large"):
                pass


@pytest.mark.limit("tags and attributes", "event")
@pytest.mark.limit("tags and attributes of large events", "account")
@pytest.mark.limit("time of queries", "account")
def test_large_events_and_expensive_queries_on_them_slow_nobody(tmp_path: Path) -> None:
    async def work(node: NodeProcess) -> None:
        async with AsyncExitStack() as stack:
            bystander = await stack.enter_async_context(
                measured_bystander(node.endpoint, **BYSTANDER)
            )
            bad = await stack.enter_async_context(connect(node.endpoint, **identity_of("bad")))
            payloads = (elements(MAX_MARKUP - OUTER), attributes(MAX_MARKUP - OUTER))
            for payload in (elements(250_000), attributes(110_000), elements(MAX_MARKUP)):
                with pytest.raises(TooLarge, match="tags and attributes"):
                    await bad.publish("large", payload, ODD)
            published = 0

            async def publish() -> None:
                nonlocal published
                while True:
                    await bad.publish("large", payloads[published % len(payloads)], ODD)
                    published += 1

            attacks = [asyncio.ensure_future(publish()) for _ in range(4)]
            await bystander.measure(tries=3)
            attacks += [
                asyncio.ensure_future(subscribe_again(bad, EXPENSIVE.format(number)))
                for number in range(4)
            ]
            await bystander.measure(tries=3)
            for each in attacks:
                each.cancel()
            ends = await asyncio.gather(*attacks, return_exceptions=True)
            assert all(isinstance(each, asyncio.CancelledError) for each in ends), ends
            assert published
        limits = (await ask_status(node.endpoint, **ADMINISTRATOR))["limits"]
        (limit,) = (each for each in limits if each["name"] == "account-markup-per-second")
        assert limit["reached"] > 0

    with NodeProcess(tmp_path, CONFIGURATION) as node:
        run_within(work(node), 2 * PATIENCE)
        assert "Traceback" not in node.log()
