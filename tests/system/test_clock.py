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
from tests.system.raw_session import send_and_read_all
from tests.system.stepped_clock import PRELUDE
from tests.system.traffic import FLIGHT, Inbox, flight, run_within

pytestmark = pytest.mark.system

HANDSHAKE = 1.0


@pytest.mark.parametrize("step", [signal.SIGUSR1, signal.SIGUSR2], ids=["back", "on"])
def test_timers_ignore_a_step_of_the_clock(step: signal.Signals, tmp_path: Path) -> None:
    async def silent_connection_seconds(node: NodeProcess) -> float:
        began = time.monotonic()
        reading = asyncio.create_task(send_and_read_all(node.port, b""))
        async with connect(node.endpoint) as client:
            # The node has started the silent connection's timer.
            await client.publish("clock", flight(1), FLIGHT)
            node.process.send_signal(step)
            inbox = Inbox(await client.subscribe("true()", "clock"))
            receipts = [await client.publish("clock", flight(n), FLIGHT) for n in range(5)]
            await inbox.wait_for_receipts(receipts)
            await inbox.close()
            assert client.connected
        await reading
        return time.monotonic() - began

    async def work(node: NodeProcess) -> None:
        seconds = await silent_connection_seconds(node)
        assert HANDSHAKE - 0.2 <= seconds < HANDSHAKE + 3.0

    with NodeProcess(
        tmp_path, f"[limits]\nhandshake_timeout = {HANDSHAKE}\n", prelude=PRELUDE
    ) as node:
        run_within(work(node))
        node.stop()
        arrivals = [event.arrival for event in read_events(node.data / "log", 1, 100)]
        # The log is searched by time.
        assert arrivals == sorted(arrivals)
        if step is signal.SIGUSR2:
            assert arrivals[-1] - arrivals[0] > 86_000_000
        for event in read_events(node.data / "log", 1, 100):
            assert read_event(event.document).stream == "clock"


def test_reactor_seconds_are_monotonic(tmp_path: Path) -> None:
    prelude = (
        "import time\n"
        "from twisted.internet import reactor\n"
        "reactor.callWhenRunning(lambda: print('drift',"
        " abs(reactor.seconds() - time.monotonic()) < 1, flush=True))\n"
    )
    with NodeProcess(tmp_path, prelude=prelude) as node:
        assert "True" in node.await_log(r"\bdrift\b")
