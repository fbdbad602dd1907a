"""One batch whose events name hundreds of unknown types."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from broker.client.asyncio_face import connect
from broker.dtd.fetch_slots import MAX_FETCHES, MAX_FETCHES_OF_OWNER
from broker.event.envelope import EventType
from broker.event.event_id import EventId
from broker.event.writer import write_event
from broker.wire.event_batch import encode_batch
from examples.free_ports import free_port
from tests.security.account_settings import (
    ADMINISTRATOR,
    BASE,
    BYSTANDER,
    SECRET,
    account_toml,
    identity_of,
)
from tests.security.bystander import measured_bystander
from tests.system.node_process import PATIENCE, NodeProcess
from tests.system.raw_session import RawSession
from tests.system.traffic import ask_status, run_within

pytestmark = pytest.mark.system

TYPES = 537
#: Accounts that together have more fetches than the node.
MANY = MAX_FETCHES // MAX_FETCHES_OF_OWNER + 2
GOOD = b"""<!ENTITY % Mspaces.content ", a">
<!ENTITY % m PUBLIC "-//xmlbroker//ELEMENTS Mspaces Envelope 1.0//EN" "mspaces-1.0.mod">%m;
<!ELEMENT a EMPTY>"""


class DtdServer:
    """Answers below `/good/`; other requests get no answer."""

    def __init__(self) -> None:
        self.port = free_port()
        self.requests = 0
        self.open = 0
        self.most_open = 0
        self._requested = asyncio.Condition()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        if b" /good/" in request:
            writer.write(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n" % len(GOOD) + GOOD)
        else:
            self.requests += 1
            self.open += 1
            self.most_open = max(self.most_open, self.open)
            async with self._requested:
                self._requested.notify_all()
            # The loop cancels it at the end.
            with contextlib.suppress(asyncio.CancelledError):
                await reader.read()
            self.open -= 1
        writer.close()

    async def await_requests(self, count: int) -> None:
        """Return after so many requests without an answer."""
        async with asyncio.timeout(PATIENCE), self._requested:
            await self._requested.wait_for(lambda: self.requests >= count)


def unknown_types(account: str, count: int, pointer: str) -> list[bytes]:
    """Return events of types whose requests get no answer."""
    return [
        write_event(
            EventId(account, 1, number, 1),
            "types",
            EventType(f"{account}-type{number}", "1.0"),
            b"<a/>",
            system_id=f"{pointer}/{account}{number}.dtd",
        )
        for number in range(1, count + 1)
    ]


@pytest.mark.limit("DTD look-ups at once", "account or node")
def test_a_batch_of_many_types_fetches_a_few_at_a_time(tmp_path: Path) -> None:
    server = DtdServer()
    pointer = f"http://127.0.0.1:{server.port}"
    configuration = (
        BASE
        + account_toml("bad", publish=["types"])
        + account_toml("good", publish=["types"])
        + f'[log]\nsync = false\n[types]\npointers = ["{pointer}/"]\n'
    )
    batch = unknown_types("bad", TYPES, pointer)

    async def work(node: NodeProcess) -> None:
        async with AsyncExitStack() as stack:
            listening = await asyncio.start_server(server.handle, "127.0.0.1", server.port)
            stack.callback(listening.close)
            bystander = await stack.enter_async_context(
                measured_bystander(node.endpoint, **BYSTANDER)
            )
            attacker = await RawSession.open(node.port, "bad", secret=SECRET)
            stack.callback(attacker.close)
            await attacker.send(encode_batch(1, batch))
            await server.await_requests(MAX_FETCHES_OF_OWNER)
            await bystander.measure()
            good = await stack.enter_async_context(connect(node.endpoint, **identity_of("good")))
            # Another account's fetch does not wait for those.
            async with asyncio.timeout(PATIENCE):
                assert await good.publish(
                    "types", b"<a/>", EventType("fine", "1.0"), system_id=f"{pointer}/good/fine.dtd"
                )
            limits = (await ask_status(node.endpoint, **ADMINISTRATOR))["limits"]
        assert server.most_open == MAX_FETCHES_OF_OWNER
        (limit,) = (each for each in limits if each["name"] == "dtd-fetches-of-account")
        assert limit["reached"] > 0

    with NodeProcess(tmp_path, configuration) as node:
        run_within(work(node))


@pytest.mark.limit("DTD look-ups at once", "node")
def test_fetches_of_many_accounts_are_bounded(tmp_path: Path) -> None:
    server = DtdServer()
    pointer = f"http://127.0.0.1:{server.port}"
    configuration = (
        BASE
        + "".join(account_toml(f"many{number}", publish=["types"]) for number in range(MANY))
        + f'[log]\nsync = false\n[types]\npointers = ["{pointer}/"]\n'
    )

    async def work(node: NodeProcess) -> None:
        async with AsyncExitStack() as stack:
            listening = await asyncio.start_server(server.handle, "127.0.0.1", server.port)
            stack.callback(listening.close)
            bystander = await stack.enter_async_context(
                measured_bystander(node.endpoint, **BYSTANDER)
            )
            # All are logged in first: an unanswered fetch ends after some seconds.
            attackers = [
                await RawSession.open(node.port, f"many{number}", secret=SECRET)
                for number in range(MANY)
            ]
            for number, attacker in enumerate(attackers):
                stack.callback(attacker.close)
                batch = unknown_types(f"many{number}", MAX_FETCHES_OF_OWNER, pointer)
                await attacker.send(encode_batch(1, batch))
            await server.await_requests(MAX_FETCHES)
            limits = (await ask_status(node.endpoint, **ADMINISTRATOR))["limits"]
            # Later some have ended, and others begun.
            assert server.most_open == server.requests == MAX_FETCHES
            await bystander.measure()
        (limit,) = (each for each in limits if each["name"] == "dtd-fetches")
        assert limit["reached"] == MANY * MAX_FETCHES_OF_OWNER - MAX_FETCHES

    with NodeProcess(tmp_path, configuration) as node:
        run_within(work(node))
