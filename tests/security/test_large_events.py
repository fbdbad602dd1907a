"""Events for whose matching the node stops, and expensive queries on them."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest

from broker.client.asyncio_face import AsyncioClient, connect
from broker.client.received import ALL, NEW, Start
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
from tests.security.bystander import MeasuredBystander, measured_bystander
from tests.system.node_process import PATIENCE, NodeProcess
from tests.system.traffic import ask_status, checked_bystander, run_within

pytestmark = pytest.mark.system

ODD = EventType("odd", "1.0")
#: Markup of an envelope and an outer element.
OUTER = 100
#: They compare all elements or attributes with all others.
EXPENSIVE = (
    "//*[count(following::*) = 1{0}]",
    "//a = //a[. != '{0}']",
    "//@*[. = '{0}']/../@*[. = '{0}']",
    "//a[" + " or ".join(f"b{{0}}_{n}" for n in range(200)) + "]",
    "/Mspaces:Event//*[count(following::*) = 1{0}] or //*[count(following::*) = 1{0}]",
)
#: Queries of an account. Those of one template are matched together, if they are more than 32.
QUERIES = 40
#: Accounts that try each of them at most: other work of the machine delays the node, too.
TRIES = 5
#: Large events of each part of an attack: one a second.
EVENTS = 4
#: Seconds for which a large event and the queries of one account may stop the node: 0.1 to 0.2 s,
#: and twice as long on a slow machine.
LONGEST_STOP = 0.5


def elements(count: int) -> bytes:
    return b"<r>" + b"<a/>" * count + b"</r>"


def attributes(count: int) -> bytes:
    element = b"<a " + b" ".join(b'a%d=""' % number for number in range(250)) + b"/>"
    return b"<r>" + element * (count // 251) + b"</r>"


PAYLOADS = (elements(MAX_MARKUP - OUTER), attributes(MAX_MARKUP - OUTER))
ACCOUNTS = len(EXPENSIVE) * len(PAYLOADS) * TRIES
CONFIGURATION = (
    BASE
    + account_toml("bad", publish=["large"], subscribe=["large"])
    + "".join(account_toml(f"new{number}", subscribe=["large"]) for number in range(ACCOUNTS))
    + '[log]\nsync = false\n[types]\nundescribed = "accept"\n'
)


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def subscribe_again(client: AsyncioClient, query: str, start: Start = NEW) -> None:
    """Subscribe whenever the query has turned out too expensive."""
    while True:
        with suppress(QueryTooExpensive):
            async for _ in await client.subscribe(query, "large", start=start):
                pass


async def end_attacks(attacks: Sequence[asyncio.Future[None]]) -> None:
    """Cancel them; fail if one has ended before."""
    for each in attacks:
        each.cancel()
    ends = await asyncio.gather(*attacks, return_exceptions=True)
    assert all(isinstance(each, asyncio.CancelledError) for each in ends), ends


@pytest.mark.limit("tags and attributes", "event")
@pytest.mark.limit("tags and attributes of large events", "account")
@pytest.mark.limit("time of queries", "account")
def test_large_events_and_expensive_queries_on_them_slow_nobody(tmp_path: Path) -> None:
    async def work(node: NodeProcess) -> None:
        async with AsyncExitStack() as stack:
            bystander = await stack.enter_async_context(
                measured_bystander(node.endpoint, **BYSTANDER)
            )
            bad, other = [
                await stack.enter_async_context(connect(node.endpoint, **each))
                for each in (identity_of("bad"), ADMINISTRATOR)
            ]
            for payload in (elements(250_000), attributes(110_000), elements(MAX_MARKUP)):
                with pytest.raises(TooLarge, match="tags and attributes"):
                    await other.publish("large", payload, ODD)
            published = 0

            async def publish() -> None:
                nonlocal published
                while True:
                    await bad.publish("large", PAYLOADS[published % len(PAYLOADS)], ODD)
                    published += 1

            attacks = [asyncio.ensure_future(publish()) for _ in range(4)]
            while published < EVENTS:
                await bystander.measure(3)
            attacks += [
                asyncio.ensure_future(subscribe_again(bad, query.format(number)))
                for number, query in enumerate(EXPENSIVE)
            ]
            while published < 2 * EVENTS:
                await bystander.measure(3)
            await end_attacks(attacks)
        limits = (await ask_status(node.endpoint, **ADMINISTRATOR))["limits"]
        (limit,) = (each for each in limits if each["name"] == "account-markup-per-second")
        assert limit["reached"] > 0

    with NodeProcess(tmp_path, CONFIGURATION) as node:
        run_within(work(node), 2 * PATIENCE)
        assert "Traceback" not in node.log()


@pytest.mark.limit("time of queries", "account and event")
def test_the_first_expensive_queries_of_an_account_stop_the_node_briefly(tmp_path: Path) -> None:
    async def stop(node: NodeProcess, account: int, query: str, payload: bytes) -> float:
        """Return the seconds for which a large event stops the node with queries of an account."""
        async with (
            checked_bystander(node.endpoint, **BYSTANDER) as traffic,
            connect(node.endpoint, **ADMINISTRATOR) as publisher,
            connect(node.endpoint, **identity_of(f"new{account}")) as client,
        ):
            for number in range(QUERIES):
                await client.subscribe(query.format(number), "large")
            await publisher.when_connected(PATIENCE)
            before = processor_seconds(node.process.pid)
            publishing = asyncio.ensure_future(publisher.publish("large", payload, ODD))
            longest = await MeasuredBystander(traffic).measure_longest(publishing)
            # Other processes of a busy machine delay the bystander, too.
            return min(longest, processor_seconds(node.process.pid) - before)

    async def work(node: NodeProcess) -> None:
        cases = list(itertools.product(EXPENSIVE, PAYLOADS))
        for number, (query, payload) in enumerate(cases):
            seconds: list[float] = []
            while len(seconds) < TRIES and min(seconds, default=1.0) > LONGEST_STOP:
                account = number * TRIES + len(seconds)
                seconds.append(await stop(node, account, query, payload))
            print(f"{query} stops the node for {min(seconds):.2f} s")
            assert min(seconds) < LONGEST_STOP, (query, seconds)

    with NodeProcess(tmp_path, CONFIGURATION) as node:
        run_within(work(node), 4 * PATIENCE)
        assert "Traceback" not in node.log()


@pytest.mark.limit("matching of logged events: recoveries, catching up", "node")
def test_recoveries_of_large_events_slow_nobody(tmp_path: Path) -> None:
    """Each event takes the time of several slices."""

    async def work(node: NodeProcess) -> None:
        async with (
            measured_bystander(node.endpoint, **BYSTANDER) as bystander,
            connect(node.endpoint, **ADMINISTRATOR) as publisher,
            connect(node.endpoint, **identity_of("bad")) as bad,
        ):
            for _ in range(2 * EVENTS):
                await publisher.publish("large", PAYLOADS[0], ODD)
            attacks = [
                asyncio.ensure_future(subscribe_again(bad, f"count(//a | //*) = 1{number}", ALL))
                for number in range(QUERIES)
            ]
            await bystander.measure(3)
            await end_attacks(attacks)

    with NodeProcess(tmp_path, CONFIGURATION) as node:
        run_within(work(node), 2 * PATIENCE)
        assert "Traceback" not in node.log()
