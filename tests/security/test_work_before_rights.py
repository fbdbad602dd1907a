"""Documents of accounts that may not publish them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker.client.asyncio_face import connect
from broker.event.event_id import EventId
from broker.event.writer import write_event
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
from tests.system.node_process import NodeProcess
from tests.system.raw_session import RawSession
from tests.system.traffic import FLIGHT, ask_status, flight, run_within

pytestmark = pytest.mark.system

CONFIGURATION = (
    BASE
    + account_toml("none", subscribe=[">"])
    + account_toml("other", publish=["other"])
    + account_toml("reader", subscribe=[">"])
    + "[log]\nsync = false\n[limits]\nwindow_bytes = 8000000\n"
)
BATCHES = 20
#: Bytes.
GROWTH = 48 << 20


async def attack(node: NodeProcess, client_id: str, batch: list[bytes]) -> set[str]:
    """Send batches and return the codes of all their documents."""
    session = await RawSession.open(node.port, client_id, secret=SECRET)
    codes: set[str] = set()
    try:
        for number in range(1, BATCHES + 1):
            await session.send(encode_batch(number, batch))
            answer = await session.receive()
            assert isinstance(answer, Published) and len(answer.refused) == len(batch)
            codes |= {error[0] for _, error in answer.refused}
    finally:
        session.close()
    return codes


async def log_in_repeatedly(node: NodeProcess) -> None:
    for number in range(8):
        async with connect(node.endpoint, **identity_of("reader", number)) as client:
            await client.when_connected(5.0)


def test_documents_without_the_right_cost_neither_memory_nor_logins(tmp_path: Path) -> None:
    foreign = [
        write_event(EventId("other", 1, number, 1), "secret", FLIGHT, flight(number))
        for number in range(1, 300)
    ]

    async def work(node: NodeProcess) -> None:
        async with measured_bystander(node.endpoint, **BYSTANDER) as bystander:
            before = await ask_status(node.endpoint, **ADMINISTRATOR)
            logins = asyncio.ensure_future(log_in_repeatedly(node))
            measuring = asyncio.ensure_future(bystander.measure())
            found = await asyncio.gather(
                attack(node, "none", [b"x"] * 1_000), attack(node, "other", foreign)
            )
            assert set().union(*found) == {"not-allowed"}
            await measuring
            await logins
            after = await ask_status(node.endpoint, **ADMINISTRATOR)
        assert not list((node.data / "quarantine").iterdir())
        assert after["matcher"]["accepted"] < 1_000
        assert not [name for name in after["matcher"] if name.startswith("refused.")]
        memory = [status["memory"]["resident_bytes"] for status in (before, after)]
        assert memory[1] - memory[0] < GROWTH

    with NodeProcess(tmp_path, CONFIGURATION) as node:
        run_within(work(node))
