"""A node's timers while somebody sets the clock."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

import pytest

from broker.client.asyncio_face import connect
from broker.event.reader import read_event
from broker.log.external_reader import read_events
from tests.system.node_process import NodeProcess
from tests.system.raw_session import how_it_ends
from tests.system.stepped_clock import PRELUDE
from tests.system.traffic import FLIGHT, Inbox, flight, within

pytestmark = pytest.mark.system

HANDSHAKE = 1.0


@pytest.mark.parametrize("step", [signal.SIGUSR1, signal.SIGUSR2], ids=["back", "on"])
def test_timers_do_not_heed_a_step_of_the_clock(step: signal.Signals, tmp_path: Path) -> None:
    async def silence(node: NodeProcess) -> float:
        began = time.monotonic()
        reading = asyncio.create_task(how_it_ends(node.port, b""))
        async with connect(node.endpoint) as client:
            # The node has taken the silent connection by now, and runs its timer.
            await client.publish("clock", flight(1), FLIGHT)
            node.process.send_signal(step)
            inbox = Inbox(await client.subscribe("true()", "clock"))
            receipts = [await client.publish("clock", flight(n), FLIGHT) for n in range(5)]
            await inbox.until_received(receipts)
            await inbox.close()
            assert client.connected
        await reading
        return time.monotonic() - began

    async def work(node: NodeProcess) -> None:
        lasted = await silence(node)
        assert HANDSHAKE - 0.2 <= lasted < HANDSHAKE + 3.0

    with NodeProcess(
        tmp_path, f"[limits]\nhandshake_timeout = {HANDSHAKE}\n", prelude=PRELUDE
    ) as node:
        within(work(node))
        node.stop()
        arrivals = [event.arrival for event in read_events(node.data / "log", 1, 100)]
        # What the log says of arrivals never falls, or it could not be searched by time.
        assert arrivals == sorted(arrivals)
        # The clock really stepped for the node, and it kept its word on the events all the same.
        if step is signal.SIGUSR2:
            assert arrivals[-1] - arrivals[0] > 86_000_000
        for event in read_events(node.data / "log", 1, 100):
            assert read_event(event.document).stream == "clock"


def test_the_reactors_seconds_are_monotonic(tmp_path: Path) -> None:
    """What the service sets holds for the reactor that runs, not for a name of it."""
    prelude = (
        "import time\n"
        "from twisted.internet import reactor\n"
        "reactor.callWhenRunning(lambda: print('drift',"
        " abs(reactor.seconds() - time.monotonic()) < 1, flush=True))\n"
    )
    with NodeProcess(tmp_path, prelude=prelude) as node:
        assert "True" in node.await_log(r"\bdrift\b")
