from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker.archive.archive import Archive
from broker.archive.disk import Disk
from broker.archive.verification import Verification
from broker.archive.writer import ArchiveWriter
from broker.client.asyncio_face import connect
from tests.archive.events import HOUR, MORNING, covering, event, everything_in
from tests.system.node_process import PATIENCE, NodeProcess
from tests.system.traffic import FLIGHT, flight, run_within

pytestmark = pytest.mark.system

STREAMS, HOURS = 2, 3
HUNDREDS, THOUSANDS = 50 * STREAMS * HOURS, 350 * STREAMS * HOURS
#: Maintenance gets a tenth of a busy processor.
MAINTENANCE_SECONDS = 4 * PATIENCE
#: Old enough to be settled.
LONG_AGO = MORNING - 3 * 365 * 24 * HOUR


class UnsyncedDisk(Disk):
    def write(self, path: Path, data: bytes | memoryview) -> None:
        path.write_bytes(data)

    def sync_folder(self, path: Path) -> None:
        pass


def fill(folder: Path, files: int) -> Path:
    """Write uncompacted files of another node, with an event each."""
    archive = Archive.open(str(folder), wall_clock=lambda: LONG_AGO, disk=UnsyncedDisk())
    writer = ArchiveWriter(archive, "aa", lambda: LONG_AGO)
    each = STREAMS * HOURS
    for flush in range(files // each):
        made = [
            event(
                flush * each + n,
                stream=f"s{n % STREAMS}",
                arrival=LONG_AGO + n // STREAMS * HOUR,
            )
            for n in range(each)
        ]
        writer.write(covering(made), made, {})
    return folder


def stored(folder: Path) -> int:
    return sum(1 for _ in (folder / "events").rglob("*.parquet"))


def listed(folder: Path) -> int:
    return len(Archive.open(str(folder), create=False).state().files)


async def publish(node: NodeProcess, first: int, last: int) -> None:
    async with connect(node.endpoint, client_id=f"publisher-{first}") as client:
        published = [client.publish("kept.a", flight(n), FLIGHT) for n in range(first, last)]
        await asyncio.gather(*published)


@pytest.mark.soak
def test_thousands_of_small_files_are_compacted_while_the_node_archives(tmp_path: Path) -> None:
    folder = fill(tmp_path / "archive", THOUSANDS)
    assert listed(folder) == stored(folder) == THOUSANDS > 2_000

    async def work() -> None:
        await publish(node, 0, 100)
        finished = f"archive maintenance so far: {THOUSANDS} files merged"
        waiting = asyncio.create_task(
            asyncio.to_thread(node.await_log, finished, patience=MAINTENANCE_SECONDS)
        )
        for first in range(100, 400, 100):
            await publish(node, first, first + 100)
        await waiting
        assert listed(folder) < 100

    with NodeProcess(tmp_path, f'[archive]\nlocation = "{folder}"\nevery = 0.5\n') as node:
        node.await_log("events are archived")
        run_within(work(), 2 * MAINTENANCE_SECONDS)
        node.stop()
        assert "archiver:" not in node.log(), "somebody complained"
    archive = Archive.open(str(folder), create=False)
    assert len(everything_in(archive)) == THOUSANDS + 400
    assert Verification(archive).run().faults == []


def test_old_events_expire_while_the_node_runs(tmp_path: Path) -> None:
    folder = fill(tmp_path / "archive", HUNDREDS)
    settings = f'[archive]\nlocation = "{folder}"\nevery = 0.5\ncompact = false\nmax_age = "30d"\n'
    with NodeProcess(tmp_path, settings) as node:
        run_within(publish(node, 0, 50))
        node.await_log(f"0 files merged, {HUNDREDS} expired")
        node.stop()
    assert len(everything_in(Archive.open(str(folder), create=False))) == 50
