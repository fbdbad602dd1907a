"""DTDs that can not be written to a full disk (M13, A5)."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from broker.dtd import store
from broker.dtd.async_store import RETRY_SECONDS
from broker.dtd.atomic_file import write_atomically
from broker.errors import LogUnavailable
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, read
from tests.simulation.network.test_type_distribution import (
    BY_DEFAULT,
    REPORT,
    altitudes,
    folder_with,
    report_text,
)


class Disk:
    full = True

    def write(self, *of: Any, **named: Any) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        write_atomically(*of, **named)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    monkeypatch.setattr(store, "write_atomically", disk.write)
    return disk


def test_event_is_acknowledged_when_its_dtd_is_on_disk(disk: Disk, tmp_path: Path) -> None:
    settings = folder_with(tmp_path / "types", v1_0=report_text())
    with NetworkWorld(0, thread_delay=0.02) as world:
        world.add("a", "one", settings=settings)
        world.run(2.0)
        reader = Reader(world, world.client("reader", "a"), BY_DEFAULT, durable="d")
        publisher = Publisher(world.client("publisher", "a"))
        world.run(1.0)
        publisher.publish(altitude=1, name="report")
        publisher.publish(altitude=2, name="report")
        read(world, reader, seconds=10.0)
        assert publisher.receipts == [] and reader.items == []
        assert world["a"].types.snapshot()["not_written"] >= 3
        disk.full = False
        read(world, reader, seconds=2 * RETRY_SECONDS + 2.0)
        assert len(publisher.receipts) == 2 and altitudes(reader) == [1, 2]
        assert reader.gaps == []
        world.kill_client(reader.client)
        publisher.publish(altitude=3, name="report")
        world.run(1.0)
        folder = tmp_path / "types"
        (folder / "report-1.0.dtd").unlink()
        folder_with(folder)
        world.kill("a")
        world.start("a")
        again = Reader(world, world.client("reader", "a", incarnation=2), BY_DEFAULT, durable="d")
        read(world, again, seconds=5.0)
        assert altitudes(again) == [3] and again.gaps == []


def test_type_is_registered_when_it_is_on_disk(disk: Disk) -> None:
    with NetworkWorld(0, thread_delay=0.02) as world:
        world.add("a", "one")
        world.run(2.0)
        client = world.client("admin", "a")
        named = {"type": "report", "version": "1.0", "against": ""}
        with pytest.raises(LogUnavailable, match="can not be written at the moment"):
            world.wait(client.ask("dtd-add", report_text().encode(), **named))
        disk.full = False
        world.run(RETRY_SECONDS + 1.0)
        assert world.wait(client.ask("dtd-add", report_text().encode(), **named))["known"]
        world.kill("a")
        world.start("a")
        assert REPORT in world["a"].types.dtd_store.store


def test_killed_node_logs_no_event_without_its_dtd(disk: Disk, tmp_path: Path) -> None:
    settings = folder_with(tmp_path / "types", v1_0=report_text())
    with NetworkWorld(0, thread_delay=0.02) as world:
        world.add("a", "one", settings=settings)
        world.run(2.0)
        publisher = Publisher(world.client("publisher", "a"))
        publisher.publish(altitude=1, name="report")
        publisher.publish(altitude=2)
        world.run(5.0)
        world.kill("a")
        world.start("a")
        assert REPORT not in world["a"].types.dtd_store.store
        assert not world["a"].event_log.bounds.last
        disk.full = False
        world.run(20.0)
        assert len(publisher.receipts) == 2
