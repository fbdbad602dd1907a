"""A node with another key, whose earlier log is revoked, over real sockets."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from broker.client.asyncio_face import connect
from examples.free_ports import free_port
from tests.security.bystander import measured_bystander
from tests.system.archived_nodes import ids_of
from tests.system.node_process import PATIENCE, NodeProcess
from tests.system.traffic import STREAM, Inbox, ask_status, publish, run_within

pytestmark = pytest.mark.system

#: Of each kind.
EVENTS = 10
#: Positions come each second, and missing ranges are requested after 0.1, 1, 2 s.
REJECTED_SECONDS = 5.0


def make_nodes(folder: Path) -> list[NodeProcess]:
    ports = [free_port() for _ in range(2)]
    key = folder / "key"
    key.write_text("a key of all the nodes")
    return [
        NodeProcess(
            folder / f"n{number}",
            '[log]\nsync = false\n[recovery]\ngap_timeout = "1s"\n'
            '[network]\ncluster = "alps"\ngap_timeout = "1s"\n'
            f'key_file = "{key}"\nlisten = ["tcp:port={port}:interface=127.0.0.1"]\n'
            f"join = {[f'127.0.0.1:{each}' for each in ports if each != port]}\n",
            name=f"n{number}",
        )
        for number, port in enumerate(ports, 1)
    ]


def change_key(node: NodeProcess) -> None:
    node.stop()
    (node.data / "node.key").unlink()
    node.start()


def add_setting(node: NodeProcess, line: str) -> None:
    """Add a line to `[network]` of a stopped node, and start it."""
    settings = node.settings.read_text()
    node.settings.write_text(settings.replace("[network]", f"[network]\n{line}"))
    node.start()


def test_trusted_events_of_a_revoked_log_arrive_and_later_ones_are_a_gap(tmp_path: Path) -> None:
    one, other = make_nodes(tmp_path)

    async def work() -> None:
        publisher = connect(one.endpoint, client_id="publisher")
        async with connect(other.endpoint, client_id="reader", state=tmp_path / "state") as reader:
            inbox = Inbox(await reader.subscribe("true()", STREAM, durable="d"))
            before = await publish(publisher, 0, EVENTS)
            await inbox.wait_for_receipts(before)
            await inbox.close()
        await asyncio.to_thread(other.stop)
        trusted = await publish(publisher, EVENTS, 2 * EVENTS)
        stolen = await publish(publisher, 2 * EVENTS, 3 * EVENTS)
        await asyncio.to_thread(change_key, one)
        last = trusted[-1].place
        await asyncio.to_thread(add_setting, other, f'revoked_logs = ["{last}"]')
        async with (
            measured_bystander(one.endpoint) as bystander,
            connect(other.endpoint, client_id="reader", state=tmp_path / "state") as reader,
        ):
            inbox = Inbox(await reader.subscribe("true()", STREAM, durable="d"))
            await bystander.measure(3)
            await inbox.wait_for_receipts(trusted)
            later = await publish(publisher, 3 * EVENTS, 4 * EVENTS)
            await inbox.wait_for_receipts(trusted + later)
            async with asyncio.timeout(PATIENCE):
                while not inbox.subscription.gaps:
                    # A gap comes in order with events.
                    later += await publish(publisher, 0, 1)
                    await inbox.wait_for_receipts(later)
            (gap,) = inbox.subscription.gaps
            assert gap.count == EVENTS and gap.last == stolen[-1].place
            assert sorted(inbox.ids) == sorted(ids_of(trusted + later))
            await inbox.close()
        await publisher.close()

    with one, other:
        run_within(work(), 4 * PATIENCE)
        assert "Traceback" not in one.log() + other.log()


def test_no_event_of_a_node_is_lost_while_its_key_is_rejected(tmp_path: Path) -> None:
    one, other = make_nodes(tmp_path)

    async def work() -> None:
        publisher = connect(one.endpoint, client_id="publisher")
        await publisher.when_connected(PATIENCE)
        async with connect(other.endpoint, client_id="reader", state=tmp_path / "state") as reader:
            inbox = Inbox(await reader.subscribe("true()", STREAM, durable="d"))
            receipts = await publish(publisher, 0, EVENTS)
            await inbox.wait_for_receipts(receipts)
            await asyncio.to_thread(other.stop)
            await asyncio.to_thread(change_key, one)
            receipts += await publish(publisher, EVENTS, 2 * EVENTS)
            await asyncio.to_thread(other.start)
            async with measured_bystander(one.endpoint) as bystander:
                await asyncio.to_thread(other.await_log, "signed by another key than its own")
                await reader.when_connected(PATIENCE)
                began = time.monotonic()
                while time.monotonic() < began + REJECTED_SECONDS:
                    await bystander.measure(3)
            key = (await ask_status(one.endpoint))["public_key"]
            await asyncio.to_thread(other.stop)
            await asyncio.to_thread(add_setting, other, f'public_keys = ["n1:{key}"]')
            receipts += await publish(publisher, 2 * EVENTS, 3 * EVENTS)
            await inbox.wait_for_receipts(receipts)
            assert sorted(inbox.ids) == sorted(ids_of(receipts))
            assert not inbox.subscription.gaps
            await inbox.close()
        await publisher.close()

    with one:
        add_setting(other, "keep_keys = true")
        try:
            run_within(work(), 4 * PATIENCE)
            assert "Traceback" not in one.log() + other.log()
        finally:
            other.kill()
