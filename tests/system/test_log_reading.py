"""Another process reads the event log while the node writes it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from broker.client.asyncio_face import connect
from broker.client.received import ALL, Gap
from tests.system.node_process import PATIENCE, ROOT, NodeProcess
from tests.system.traffic import FLIGHT, Inbox, ask_status, flight, run_within

pytestmark = pytest.mark.system

MAX_LOG_BYTES = 4 << 20
FILLING = "x" * 10_000
EVENTS = 2_000

#: Until the input ends.
READER = """
import sys, threading
from pathlib import Path
from broker.log.external_reader import read_events

ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
looks = seen = 0
newest = 0
while not ended.is_set():
    events = read_events(Path(sys.argv[1]), 1, 100_000)
    looks += 1
    offsets = [event.offset for event in events]
    assert offsets == list(range(offsets[0], offsets[0] + len(offsets))) if offsets else True
    assert not offsets or offsets[-1] >= newest
    assert all(event.document.startswith(b"<?xml") for event in events)
    if offsets:
        newest = offsets[-1]
    if looks == 1:
        print("reading", flush=True)
print("looks", looks, "newest", newest, flush=True)
"""


def test_log_stays_bounded_while_another_process_reads_it(tmp_path: Path) -> None:
    async def work(node: NodeProcess) -> None:
        reader = subprocess.Popen(
            [sys.executable, "-c", READER, str(node.data / "log")],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert reader.stdout is not None
            assert await asyncio.to_thread(reader.stdout.readline) == "reading\n"
            async with connect(node.endpoint) as client:
                for start in range(0, EVENTS, 100):
                    await asyncio.gather(
                        *(
                            client.publish("log", flight(n, filling=FILLING), FLIGHT)
                            for n in range(start, start + 100)
                        )
                    )
                log = (await ask_status(node.endpoint))["log"]
                output, _ = await asyncio.to_thread(reader.communicate, "", PATIENCE)
                assert reader.returncode == 0
                _, looks, _, newest = output.split()
                assert int(looks) > 3
                assert int(newest) > EVENTS // 4
                # 20 MB were written.
                assert log["last"] == EVENTS
                assert log["first"] > EVENTS // 2
                assert log["used_bytes"] <= MAX_LOG_BYTES * 1.2
                assert (node.data / "log" / "data.mdb").stat().st_size < 3 * MAX_LOG_BYTES
                inbox = Inbox(await client.subscribe("true()", "log", start=ALL))
                await inbox.wait_until(lambda: len(inbox.events) == EVENTS - log["first"] + 1)
                await inbox.close()
        finally:
            reader.kill()
            reader.communicate()

    with NodeProcess(tmp_path, f"[log]\nmax_bytes = {MAX_LOG_BYTES}\n") as node:
        run_within(work(node))


def test_durable_subscriber_gets_a_gap_after_a_long_absence(tmp_path: Path) -> None:
    async def work(node: NodeProcess) -> None:
        async with connect(node.endpoint, client_id="away") as client:
            inbox = Inbox(await client.subscribe("true()", "log", durable="d"))
            receipt = await client.publish("log", flight(0), FLIGHT)
            await inbox.wait_for_receipts([receipt])
            await inbox.close()
        async with connect(node.endpoint) as client:
            for start in range(0, 1000, 100):
                await asyncio.gather(
                    *(
                        client.publish("log", flight(n, filling=FILLING), FLIGHT)
                        for n in range(start, start + 100)
                    )
                )
        first = (await ask_status(node.endpoint))["log"]["first"]
        async with connect(node.endpoint, client_id="away") as client:
            gaps: list[Gap] = []
            inbox = Inbox(await client.subscribe("true()", "log", durable="d", on_gap=gaps.append))
            await inbox.wait_until(lambda: len(inbox.events) == 1001 - first + 1)
            await inbox.close()
            (gap,) = gaps
            assert gap.reason == "retention"
            assert (gap.first.offset, gap.last.offset) == (2, first - 1)
            assert gap.count == first - 2
            assert inbox.events[0].place.offset == first
        async with connect(node.endpoint, client_id="away") as client:
            inbox = Inbox(await client.subscribe("true()", "log", durable="d", on_gap=gaps.append))
            receipt = await client.publish("log", flight(0), FLIGHT)
            await inbox.wait_for_receipts([receipt])
            await inbox.close()
            assert len(inbox.events) == 1
            assert len(gaps) == 1

    with NodeProcess(tmp_path, f"[log]\nmax_bytes = {MAX_LOG_BYTES}\n") as node:
        run_within(work(node))
