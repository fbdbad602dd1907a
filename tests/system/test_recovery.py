from __future__ import annotations

import asyncio
import os
from contextlib import closing
from pathlib import Path

import pytest

from broker.archive.archive import Archive
from broker.archive.manifest_entry import ArchivedFile
from broker.client.asyncio_face import connect
from broker.event.envelope import Liveness
from broker.event.place import Mark
from broker.log.external_reader import ExternalReader
from tests.system.archived_nodes import (
    FILLING,
    ids_of,
    kill_child,
    node_settings,
    read_first_events,
    recovered_ids,
    resume,
    wait_for_all,
    wait_until_archived,
)
from tests.system.node_process import PATIENCE, NodeProcess
from tests.system.traffic import Inbox, publish, run_within

pytestmark = pytest.mark.system


def first_place(file: ArchivedFile) -> Mark:
    [(first, _)] = file.spans.values()
    return first


def removed_upto(node: NodeProcess) -> Mark:
    with closing(ExternalReader(node.data / "log")) as log:
        return log.own_extent()[0]


def test_removed_events_come_from_the_archive_and_the_rest_from_the_log(
    tmp_path: Path,
) -> None:
    async def work() -> None:
        async with connect(node.endpoint, client_id="publisher") as publisher:
            await read_first_events(node, 0)
            receipts = await publish(publisher, 0, 10)
            events = await read_first_events(node, 5)
            # Retention must not remove events before they are archived.
            for first in range(10, 500, 70):
                receipts += await publish(publisher, first, first + 70, FILLING)
                await wait_until_archived(tmp_path / "archive", receipts[-1:])
            async with connect(node.endpoint, client_id="rover") as client:
                inbox = await resume(client)
                last = await publish(publisher, 500, 505)
                await wait_for_all(inbox, last)
                assert ids_of(receipts)[:5] == [event.event_id for event in events]
                assert inbox.ids == ids_of(receipts[5:] + last)
                assert recovered_ids(inbox.events) == ids_of(receipts[5:])
                assert {event.liveness for event in inbox.events[-5:]} == {Liveness.LIVE}
                assert not inbox.subscription.gaps
                await inbox.close()

    with NodeProcess(tmp_path, node_settings(tmp_path / "archive")) as node:
        run_within(work())
        node.stop()
        assert "replay process started" in node.log()
        assert "own events were removed" not in node.log()
        assert "Traceback" not in node.log()


@pytest.mark.parametrize(
    "victim",
    ["broker.replay.replayer", pytest.param("broker.archiver", marks=pytest.mark.soak), "node"],
    ids=["replayer", "archiver", "node"],
)
def test_each_event_comes_once_if_a_process_is_killed_during_recovery(
    tmp_path: Path, victim: str
) -> None:
    async def work() -> None:
        async with connect(node.endpoint, client_id="publisher") as publisher:
            await read_first_events(node, 0)
            receipts = []
            for first in range(0, 350, 70):
                receipts += await publish(publisher, first, first + 70, FILLING)
                await wait_until_archived(tmp_path / "archive", receipts[-1:])
            # Most events wait in the spool when the first arrive.
            async with connect(node.endpoint, client_id="rover", window_bytes=1 << 16) as client:
                await client.when_connected(PATIENCE)
                subscription = await client.subscribe("true()", "roaming.>", durable="d")
                got = [(await anext(subscription)).event_id for _ in range(5)]
                if victim == "node":
                    node.kill()
                    await asyncio.to_thread(node.start)
                else:
                    kill_child(node, victim)
                inbox = Inbox(subscription)
                await wait_for_all(inbox, receipts[5:])
                assert got + inbox.ids == ids_of(receipts)
                assert not subscription.gaps
                await inbox.close()

    with NodeProcess(tmp_path, node_settings(tmp_path / "archive")) as node:
        run_within(work(), 4 * PATIENCE)
        node.stop()
        assert "Traceback" not in node.log()
        if victim == "broker.replay.replayer":
            assert "the replay is restarted" in node.log()


def test_truncated_archive_file_becomes_a_gap_and_the_rest_arrives(tmp_path: Path) -> None:
    """No log has the events of the damaged file."""

    async def work() -> None:
        async with connect(node.endpoint, client_id="publisher") as publisher:
            await read_first_events(node, 0)
            receipts = []
            for first in range(0, 350, 70):
                receipts += await publish(publisher, first, first + 70, FILLING)
                await wait_until_archived(tmp_path / "archive", receipts[-1:])
            archive = Archive.open(str(tmp_path / "archive"))
            # Events lie before and after the damage.
            [_, file, *_] = sorted(archive.state().files.values(), key=first_place)
            [(first_mark, last_mark)] = file.spans.values()
            assert removed_upto(node) >= last_mark, "the log could replace what is damaged"
            os.truncate(tmp_path / "archive" / file.path, file.bytes // 2)
            async with connect(node.endpoint, client_id="rover") as client:
                inbox = await resume(client)
                lost = [
                    each
                    for each in receipts
                    if each.place is not None and first_mark <= each.place.mark <= last_mark
                ]
                # The archiver may write the range again before.
                rest = [each for each in receipts if each not in lost]
                await wait_for_all(inbox, rest, 2 * PATIENCE)
                last = await publish(publisher, 350, 351)
                await wait_for_all(inbox, last)
                assert inbox.ids == ids_of(rest + last)
                [gap] = inbox.subscription.gaps
                assert (gap.first.mark, gap.last.mark) == (first_mark, last_mark)
                await inbox.close()
            assert file.path not in archive.state().files

    with NodeProcess(tmp_path, node_settings(tmp_path / "archive")) as node:
        run_within(work(), 4 * PATIENCE)
