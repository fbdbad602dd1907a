"""Positions that name many invented origins."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.subscriptions.subscription_limits import MAX_CLIENT_MARKS, MAX_POSITION_MARKS
from broker.wire import messages
from broker.wire.codec import WirePosition
from broker.wire.messages import Acknowledge, Ended, Flowing, Subscribe, Subscribed
from tests.security.bystander import measured_bystander
from tests.system.node_process import NodeProcess
from tests.system.raw_session import RawSession
from tests.system.traffic import ask_status, run_within

pytestmark = pytest.mark.system

#: In one message; a control message has at most 256 KiB.
MARKS = 4_000


def position(first: int, count: int = MARKS) -> WirePosition:
    return tuple((f"invented-{number}", 1, 1) for number in range(first, first + count))


async def subscribe(
    session: RawSession, number: int, marks: WirePosition, durable: str = ""
) -> str:
    """Return the error code, or an empty text if it is accepted."""
    request = Subscribe(number, "s", "true()", {}, durable, "position", marks, 0)
    await session.send(messages.encode(request))
    while True:
        answer = await session.receive()
        if isinstance(answer, Ended) and answer.number == number:
            return answer.error[0]
        if isinstance(answer, Subscribed | Flowing) and answer.number == number:
            return ""


@pytest.mark.limit("marks in positions", "client")
def test_positions_of_one_client_are_bounded(tmp_path: Path) -> None:
    async def work(node: NodeProcess) -> None:
        session = await RawSession.open(node.port, "bad")
        async with measured_bystander(node.endpoint) as bystander:
            assert await subscribe(session, 1, position(0, MAX_POSITION_MARKS + 1)) == (
                "bad-position"
            )
            found = [
                await subscribe(session, number, position(number * MARKS))
                for number in range(2, 20)
            ]
            accepted = MAX_CLIENT_MARKS // MARKS
            assert found == [""] * accepted + ["bad-position"] * (18 - accepted)
            assert await subscribe(session, 30, position(0, 10)) == ""
            await bystander.measure()
        session.close()
        limits = (await ask_status(node.endpoint))["limits"]
        (limit,) = (each for each in limits if each["name"] == "client-position-marks")
        assert limit["reached"] == 18 - accepted + 1

    async def acknowledge(node: NodeProcess) -> None:
        session = await RawSession.open(node.port, "durable")
        assert await subscribe(session, 1, (), "d") == ""
        for number in range(MAX_POSITION_MARKS // MARKS + 1):
            positions = ((1, position(number * MARKS)),)
            await session.send(messages.encode(Acknowledge(positions)))
        while not isinstance(answer := await session.receive(), Ended):
            pass
        assert answer.error[0] == "bad-position"
        session.close()

    with NodeProcess(tmp_path, "[log]\nsync = false\n") as node:
        run_within(work(node))
        run_within(acknowledge(node))
