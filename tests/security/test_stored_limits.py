"""What accounts make a node store: types, quarantine, audit records, events for durables."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.client.asyncio_face import AsyncioClient, connect
from broker.errors import InvalidEvent, TooManyTypes
from broker.event.event_id import EventId
from broker.event.writer import write_event
from broker.ingest.quarantine import MAX_WAITING
from broker.wire import messages
from broker.wire.event_batch import encode_batch
from broker.wire.messages import Published
from tests.security.account_settings import (
    ADMINISTRATOR,
    BASE,
    BYSTANDER,
    SECRET,
    account_toml,
    identity_of,
)
from tests.security.bystander import measured_bystander
from tests.security.test_dtd_fetches import GOOD
from tests.system.node_process import NodeProcess
from tests.system.raw_session import RawSession, connect_and_read_refusal, hello
from tests.system.traffic import FLIGHT, Inbox, ask_status, flight, run_within

pytestmark = pytest.mark.system

TYPES, FILES, AUDIT_FILES, KIB = 3, 5, 2, 1024
LARGE = 60_000
QUARANTINE = (
    BASE
    + account_toml("bad", publish=["bad"])
    + f"[log]\nsync = false\n[limits]\nquarantine_files = {FILES}\n"
)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    folder = tmp_path_factory.mktemp("stored")
    configuration = (
        BASE
        + account_toml("bad", publish=["bad"], subscribe=["bad"], types=["odd"])
        + account_toml("good", types=["odd"])
        + f"""
[log]
sync = false
max_bytes = "1MiB"
[types]
max_versions = {TYPES}
[audit]
file = "{folder}/audit.jsonl"
max_bytes = "64KiB"
max_files = {AUDIT_FILES}
"""
    )
    with NodeProcess(folder, configuration) as one:
        yield one
        assert "Traceback" not in one.log()


async def limit_of(node: NodeProcess, name: str) -> dict[str, Any]:
    limits = (await ask_status(node.endpoint, **ADMINISTRATOR))["limits"]
    (found,) = (each for each in limits if each["name"] == name)
    return dict(found)


async def register(client: AsyncioClient, number: int) -> None:
    await client.ask("dtd-add", GOOD, type=f"odd{number}", version="1.0", against="")


@pytest.mark.limit("stored DTDs", "account or node")
def test_an_account_registers_few_types(node: NodeProcess) -> None:
    async def work() -> None:
        async with (
            measured_bystander(node.endpoint, **BYSTANDER) as bystander,
            connect(node.endpoint, **identity_of("bad")) as bad,
            connect(node.endpoint, **identity_of("good")) as good,
        ):
            for number in range(TYPES):
                await register(bad, number)
            assert (await limit_of(node, "stored-dtds"))["reached"] == 0
            with pytest.raises(TooManyTypes):
                await register(bad, TYPES)
            await register(good, TYPES)
            await bystander.measure()
        assert (await limit_of(node, "stored-dtds"))["reached"] == 1

    run_within(work())


@pytest.mark.limit("quarantine", "node")
@pytest.mark.limit("documents on their way to quarantine", "node")
def test_quarantine_has_few_documents(tmp_path: Path) -> None:
    batch = [
        write_event(EventId("bad-0", 1, number, 1), "bad", FLIGHT, b"<nonsense/>")
        for number in range(1, 1_000)
    ]

    async def work(node: NodeProcess) -> None:
        # The node writes the first document to a pipe: its thread waits for a reader.
        pipe = node.data / "quarantine" / "1.xml"
        os.mkfifo(pipe)
        async with (
            measured_bystander(node.endpoint, **BYSTANDER) as bystander,
            connect(node.endpoint, **identity_of("bad", 1)) as client,
        ):
            for _ in range(FILES):
                with pytest.raises(InvalidEvent):
                    await client.publish("bad", b"<nonsense/>", FLIGHT)
            assert (await limit_of(node, "quarantine-files"))["reached"] == 0
            with pytest.raises(InvalidEvent):
                await client.publish("bad", b"<nonsense/>", FLIGHT)
            assert (await limit_of(node, "quarantine-files"))["reached"] == 1
            assert (await limit_of(node, "quarantine-waiting"))["reached"] == 0
            session = await RawSession.open(node.port, "bad-0", SECRET, "bad")
            await session.send(encode_batch(1, batch))
            await bystander.measure()
            while not isinstance(answer := await session.receive(), Published):
                pass
            assert len(answer.refused) == len(batch)
            session.close()
            waiting = await limit_of(node, "quarantine-waiting")
            dropped = FILES + 1 + len(batch) - MAX_WAITING
            assert (waiting["used"], waiting["reached"]) == (MAX_WAITING, dropped)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        try:
            # The node writes all that waits before it ends.
            node.stop()
        finally:
            os.close(reader)
        found = {int(each.stem) for each in pipe.parent.glob("*.xml")}
        assert found == set(range(MAX_WAITING - FILES + 1, MAX_WAITING + 1))

    with NodeProcess(tmp_path, QUARANTINE) as node:
        run_within(work(node))


@pytest.mark.limit("audit files", "node")
def test_audit_files_are_bounded(node: NodeProcess) -> None:
    async def attack(count: int) -> None:
        for number in range(count):
            claimed = hello(f"{'x' * 300}-{number}", secret="guess")
            await connect_and_read_refusal(node.port, [messages.encode(claimed)])

    async def work() -> None:
        async with measured_bystander(node.endpoint, **BYSTANDER) as bystander:
            await attack(40)
            assert len(list(node.folder.glob("audit.jsonl*"))) == 1
            attacking = asyncio.ensure_future(attack(260))
            await bystander.measure()
            await attacking
        sizes = [each.stat().st_size for each in node.folder.glob("audit.jsonl*")]
        assert len(sizes) == AUDIT_FILES
        assert 64 * KIB < sum(sizes) <= AUDIT_FILES * 64 * KIB

    run_within(work())


@pytest.mark.limit("log retained", "node")
def test_durable_subscriptions_retain_no_log(node: NodeProcess, tmp_path: Path) -> None:
    async def work() -> None:
        late = {**identity_of("bad", 2), "state": tmp_path}
        async with connect(node.endpoint, **late) as durable:
            await durable.subscribe("true()", "bad", durable="late")
        async with (
            measured_bystander(node.endpoint, **BYSTANDER) as bystander,
            connect(node.endpoint, **identity_of("bad", 3)) as publisher,
        ):

            async def attack() -> None:
                for number in range(60):
                    await publisher.publish("bad", flight(number, filling="x" * LARGE), FLIGHT)

            attacking = asyncio.ensure_future(attack())
            await bystander.measure()
            await attacking
            async with connect(node.endpoint, **late) as durable:
                subscription = await durable.subscribe("true()", "bad", durable="late")
                inbox = Inbox(subscription)
                await inbox.wait_until(lambda: bool(inbox.events))
                assert subscription.gaps and len(inbox.events) < 60
                await inbox.close()

    run_within(work())
