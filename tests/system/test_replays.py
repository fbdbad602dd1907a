from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from pathlib import Path

import pytest

from broker.archive.archive import Archive
from broker.client.asyncio_face import AsyncioClient, connect
from broker.client.received import Receipt
from broker.client.received import since as start_at
from broker.client.subscription import Subscription
from broker.errors import ArchiveUnavailable, ReplayTooLarge
from broker.event.event_id import EventId
from broker.event.place import Position
from tests.system.archived_nodes import FILLING, ids_of, node_settings, wait_until_archived
from tests.system.mounts import mounted_tmpfs
from tests.system.node_process import PATIENCE, NodeProcess
from tests.system.traffic import ask_status, publish, run_within

pytestmark = pytest.mark.system


async def publish_and_archive(client: AsyncioClient, archive: Path) -> list[Receipt]:
    receipts: list[Receipt] = []
    for first in range(0, 280, 70):
        receipts += await publish(client, first, first + 70, FILLING)
        await wait_until_archived(archive, receipts[-1:])
    return receipts


async def replayed_ids(replay: Subscription) -> list[EventId]:
    async with asyncio.timeout(2 * PATIENCE):
        return [event.event_id async for event in replay]


def test_replays_return_the_requested_events_and_end(tmp_path: Path) -> None:
    async def work() -> None:
        async with connect(node.endpoint, client_id="publisher") as client:
            receipts = await publish_and_archive(client, tmp_path / "archive")
            all_ids = ids_of(receipts)
            places = [receipt.place for receipt in receipts if receipt.place is not None]
            assert await replayed_ids(client.replay(streams="roaming.>")) == all_ids
            assert await replayed_ids(client.replay(last=7)) == all_ids[-7:]
            since = Position().advanced([places[9]])
            until = Position().advanced([places[99]])
            assert await replayed_ids(client.replay(since=since)) == all_ids[10:]
            assert await replayed_ids(client.replay(since=since, until=until)) == all_ids[10:100]
            from_ms = all_ids[100].timestamp
            assert set(all_ids[150:]) <= set(await replayed_ids(client.replay(since_time=from_ms)))
            cancelled = client.replay()
            await anext(cancelled)
            cancelled.unsubscribe()
            assert await replayed_ids(client.replay(last=3)) == all_ids[-3:]

    with NodeProcess(tmp_path, node_settings(tmp_path / "archive")) as node:
        run_within(work(), 4 * PATIENCE)
        node.stop()
        assert "Traceback" not in node.log()
        assert not (node.data / "replays" / "spool").exists()


def test_replay_beyond_the_spool_limit_fails_and_the_node_goes_on(tmp_path: Path) -> None:
    async def work() -> None:
        async with connect(node.endpoint, client_id="publisher") as client:
            receipts = await publish_and_archive(client, tmp_path / "archive")
            replay = client.replay()
            with pytest.raises(ReplayTooLarge, match="request less"):
                await replayed_ids(replay)
            assert not replay.gaps
            places = [receipt.place for receipt in receipts if receipt.place is not None]
            since = Position().advanced([places[-4]])
            assert await replayed_ids(client.replay(since=since)) == ids_of(receipts)[-3:]

    more = 'request_bytes = "1MiB"\n'
    with NodeProcess(tmp_path, node_settings(tmp_path / "archive", more=more)) as node:
        run_within(work(), 4 * PATIENCE)
        assert "Traceback" not in node.log()


def test_replay_follows_its_pace(tmp_path: Path) -> None:
    pace = 0.5

    async def work() -> None:
        async with connect(node.endpoint, client_id="publisher") as client:
            receipts: list[Receipt] = []
            logged_at: list[float] = []
            for first in range(3):
                # So the events are apart.
                receipts += await publish(client, first, first + 1)
                logged_at.append(time.time())
                await wait_until_archived(tmp_path / "archive", receipts[-1:])
            # The first event arrived before its receipt, the last after its timestamp.
            span = receipts[-1].event_id.timestamp / 1000 - logged_at[0]
            # Timestamps have milliseconds.
            shortest = span / pace - 0.05
            clock = asyncio.get_running_loop().time
            for _ in range(5):
                replay = client.replay(pace=pace)
                first_id = (await anext(replay)).event_id
                began = clock()
                assert [first_id, *await replayed_ids(replay)] == ids_of(receipts)
                # The first event may be late, which shortens the rest.
                if (seconds := clock() - began) >= shortest:
                    break
            assert seconds >= shortest

    with NodeProcess(tmp_path, node_settings(tmp_path / "archive")) as node:
        run_within(work(), 2 * PATIENCE)


def test_replay_waits_for_an_unmounted_archive(
    tmp_path: Path,
) -> None:
    archive, elsewhere = tmp_path / "archive", tmp_path / "elsewhere"

    async def work() -> None:
        async with connect(node.endpoint, client_id="publisher") as client:
            receipts = await publish_and_archive(client, archive)
            archive.rename(elsewhere)
            more = await publish(client, 280, 290)
            replay = client.replay()
            await asyncio.to_thread(
                node.await_log, "the replay is retried later: there is no archive"
            )
            assert not archive.exists()
            elsewhere.rename(archive)
            assert await replayed_ids(replay) == ids_of([*receipts, *more])
            assert not replay.gaps
            await wait_until_archived(archive, more[-1:])

    with NodeProcess(tmp_path, node_settings(archive)) as node:
        run_within(work(), 6 * PATIENCE)
        assert "Traceback" not in node.log()


def test_replay_waits_while_the_spool_disk_is_full(tmp_path: Path) -> None:
    async def work(ballast: Path) -> None:
        async with connect(node.endpoint, client_id="publisher") as client:
            receipts = await publish_and_archive(client, tmp_path / "archive")
            with ballast.open("wb", buffering=0) as file, suppress(OSError):
                while file.write(bytes(1 << 16)):
                    pass
            replay = client.replay()
            await asyncio.to_thread(
                node.await_log, "the replay is retried later: the spool cannot be"
            )
            ballast.unlink()
            assert await replayed_ids(replay) == ids_of(receipts)
            assert not replay.gaps

    with mounted_tmpfs(tmp_path / "disk", "size=24m") as disk:
        common = node_settings(tmp_path / "archive")
        with NodeProcess(tmp_path / "node", common, data=disk / "data") as node:
            run_within(work(disk / "ballast"), 4 * PATIENCE)
            assert "Traceback" not in node.log()


def test_replay_of_a_missing_archive_fails_after_the_timeout(tmp_path: Path) -> None:
    archive = tmp_path / "archive"

    async def work() -> None:
        async with connect(node.endpoint, client_id="publisher") as client:
            receipts = await publish_and_archive(client, archive)
            archive.rename(tmp_path / "elsewhere")
            with pytest.raises(ArchiveUnavailable, match="there is no archive at"):
                await replayed_ids(client.replay())
            told = (await ask_status(node.endpoint))["recovery"]["recoveries"]
            assert (told["failed"], told["cancelled"], told["under_way"]) == (1, 0, 0)
            places = [receipt.place for receipt in receipts if receipt.place is not None]
            since = Position().advanced([places[-4]])
            subscription = await client.subscribe("true()", "roaming.>", start=start_at(since))
            assert [(await anext(subscription)).event_id for _ in range(3)] == ids_of(receipts)[-3:]

    with NodeProcess(tmp_path, node_settings(archive, more="gap_timeout = 0.5\n")) as node:
        run_within(work(), 6 * PATIENCE)
        assert "Traceback" not in node.log()


def test_lost_archive_costs_only_events_without_a_copy(tmp_path: Path) -> None:
    archive = tmp_path / "archive"

    async def work() -> None:
        async with connect(node.endpoint, client_id="publisher") as client:
            receipts = await publish_and_archive(client, archive)
            # The node archives on while the folder is taken away: a rename is one step.
            archive.rename(tmp_path / "lost")
            Archive.open(str(archive))
            replay = client.replay()
            got = await replayed_ids(replay)
            assert 0 < len(got) < len(receipts)
            assert got == ids_of(receipts)[-len(got) :]
            assert sum(gap.count for gap in replay.gaps) == len(receipts) - len(got)

    with NodeProcess(tmp_path, node_settings(archive)) as node:
        run_within(work(), 6 * PATIENCE)
        assert "Traceback" not in node.log()
