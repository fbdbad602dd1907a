from __future__ import annotations

import asyncio
import fcntl
import os
import signal
from pathlib import Path

import pytest

from broker.archive.archive import Archive
from broker.archive.table import batch_to_events
from broker.client.asyncio_face import connect
from broker.client.received import Receipt
from broker.dtd.reference import DtdReference
from broker.event.place import Place
from tests.system.node_process import NodeProcess
from tests.system.traffic import FLIGHT, flight, run_within

pytestmark = pytest.mark.system


def archived(folder: Path) -> dict[Place, bytes]:
    archive = Archive.open(str(folder / "data" / "archive"), create=False)
    found: dict[Place, bytes] = {}
    for file in archive.state().files.values():
        for batch in archive.read(file, checked=True):
            found |= {event.place: event.document for event in batch_to_events(batch)}
    return found


def wait_until_archiver_ended(folder: Path) -> None:
    with open(folder / "data" / "log" / "archiver.lock", "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)


def archiver_of(node: NodeProcess) -> int:
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            status = Path(f"/proc/{pid}/stat").read_text()
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        parent = int(status.rpartition(")")[2].split()[1])
        if parent == node.process.pid and b"broker.archiver" in command:
            return pid
    raise LookupError("the node has no archiver")


async def publish(node: NodeProcess, first: int, last: int) -> list[Receipt]:
    async with connect(node.endpoint, client_id=f"publisher-{first}") as client:
        published = [
            client.publish("kept.a", flight(number), FLIGHT) for number in range(first, last)
        ]
        return list(await asyncio.gather(*published))


def places(receipts: list[Receipt]) -> set[Place | None]:
    return {receipt.place for receipt in receipts}


def test_acknowledged_events_are_archived_after_the_node_is_killed(tmp_path: Path) -> None:
    receipts: list[Receipt] = []

    async def work() -> None:
        receipts.extend(await publish(node, 0, 200))
        node.kill()
        await asyncio.to_thread(wait_until_archiver_ended, tmp_path)
        assert archived(tmp_path).keys() == places(receipts)
        await asyncio.to_thread(node.start)
        receipts.extend(await publish(node, 200, 300))

    with NodeProcess(tmp_path, "[archive]\nevery = 3600.0\n") as node:
        node.await_log("events are archived")
        run_within(work())
        node.stop()
        assert "archiver: " not in node.log()
        assert archived(tmp_path).keys() == places(receipts)
        archive = Archive.open(str(tmp_path / "data" / "archive"), create=False)
        assert b"<!ELEMENT flight " in archive.read_dtd(DtdReference("flight", "1.0"))
        assert archive.state().covered_upto(archived_origin(receipts), (0, 0))[1] == 300


def archived_origin(receipts: list[Receipt]) -> str:
    place = receipts[0].place
    assert place is not None
    return place.origin


def test_killed_archiver_restarts_and_misses_nothing(tmp_path: Path) -> None:
    receipts: list[Receipt] = []

    async def work() -> None:
        for round in range(3):
            receipts.extend(await publish(node, 100 * round, 100 * round + 100))
            seen = len(node.log().splitlines())
            os.kill(archiver_of(node), signal.SIGKILL)
            await asyncio.to_thread(node.await_log, "it is restarted", seen)
            await asyncio.to_thread(node.await_log, "events are archived", seen)

    with NodeProcess(tmp_path, "[archive]\nevery = 0.1\n") as node:
        node.await_log("events are archived")
        run_within(work())
        node.stop()
    assert archived(tmp_path).keys() == places(receipts)


def test_unwritable_archive_is_logged_once_and_publishing_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "archive.json").write_text('{"format": "something else"}')
    with NodeProcess(tmp_path / "node", f'[archive]\nlocation = "{folder}"\n') as node:
        node.await_log("nothing is archived")

        async def work() -> None:
            assert len(await publish(node, 0, 100)) == 100

        run_within(work())
        node.stop()
        assert node.log().count("nothing is archived") == 1


def test_archive_that_is_usable_again_gets_the_events_logged_meanwhile(tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.write_text("a file in the archive's place")
    receipts: list[Receipt] = []
    with NodeProcess(tmp_path / "node", f'[archive]\nlocation = "{folder}"\nevery = 0.1\n') as node:
        node.await_log("nothing is archived")

        async def work() -> None:
            receipts.extend(await publish(node, 0, 100))

        run_within(work())
        folder.unlink()
        node.await_log("events are archived")
        node.stop()
    archive = Archive.open(str(folder), create=False)
    assert archive.state().covered_upto(archived_origin(receipts), (0, 0))[1] == 100
