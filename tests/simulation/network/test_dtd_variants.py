"""Two DTDs with one name: each event is validated by the DTD of its origin (T26)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest

from broker.client.received import ALL
from broker.cluster.types.awaited_announcements import WAIT_SECONDS
from broker.cluster.types.core import TypeTables
from broker.config import Settings
from broker.config.settings import StreamSettings
from broker.event.stream import StreamPattern
from broker.testing.flights import Interest
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, read
from tests.simulation.network.test_type_distribution import altitudes, folder_with, report_text

KINDS = ("reported", "assigned")


@pytest.fixture
def texts(tmp_path: Path) -> dict[str, Settings]:
    """Settings by the default value in the DTD."""
    return {kind: folder_with(tmp_path / kind, v1_0=report_text(kind)) for kind in KINDS}


def by_default(kind: str) -> Interest:
    query = f"/report/reportleg/altitude/@type = '{kind}'"
    return Interest(">", query, lambda stream, altitude: True)


def guarded(settings: Settings) -> Settings:
    streams = (StreamSettings(StreamPattern.parse(">"), acknowledge="neighbour"),)
    return attrs.evolve(settings, streams=streams)


def readers(world: NetworkWorld, node: str, **how: Any) -> dict[str, Reader]:
    return {
        kind: Reader(world, world.client(f"{kind}-{node}", node), by_default(kind), **how)
        for kind in KINDS
    }


def matched(of: dict[str, Reader]) -> dict[str, list[int]]:
    assert [reader.gaps for reader in of.values()] == [[], []]
    return {kind: altitudes(reader) for kind, reader in of.items()}


@pytest.mark.parametrize("late", [0.5, 3.0], ids=["soon", "too late"])
def test_event_waits_for_the_announcement_of_its_dtd(
    texts: dict[str, Settings], late: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first event passes leaders before the announcement."""
    original = TypeTables.handle_timeout
    held = True

    def handle_timeout(self: TypeTables, now: float) -> Any:
        if held and self._gather_at is not None:
            self._gather_at = now + 0.05
        return original(self, now)

    with NetworkWorld(0) as world:
        world.add("c", "three", settings=texts["assigned"])
        world.add("b", "two", gateways=["c"])
        world.run(3.0)
        at_c = readers(world, "c")
        other = Reader(world, world.client("other", "c"))
        world.run(3.0)
        monkeypatch.setattr(TypeTables, "handle_timeout", handle_timeout)
        world.add("a", "one", gateways=["b"], settings=texts["reported"])
        publisher = Publisher(world.client("publisher", "a"))
        world.run(5.0)
        publisher.publish(altitude=7, name="report")
        publisher.publish(altitude=8)
        world.run(late)
        held = False
        read(world, *at_c.values(), other, seconds=5.0)
        announcements = world["c"].types.network.announcements  # type: ignore[union-attr]
        assert altitudes(other) == [7, 8]
        if late < WAIT_SECONDS:
            assert matched(at_c) == {"reported": [7], "assigned": []}
            assert announcements.given_up == 0
        else:
            # Events of nodes without announcements are not held back for longer.
            assert matched(at_c) == {"reported": [], "assigned": [7]}
            assert announcements.given_up == 1


def test_events_of_a_dead_origin_use_its_dtd(
    texts: dict[str, Settings],
) -> None:
    """`a` joined, published and died while `c` was away."""
    with NetworkWorld(0) as world:
        world.add("b", "one")
        world.add("c", "three", gateways=["b"], settings=texts["assigned"])
        world.run(5.0)
        at_c = readers(world, "c")
        world.run(3.0)
        world.cut("b", "c", refuse=True)
        world.add("a", "one", join=["b"], settings=guarded(texts["reported"]))
        world.cut("a", "c", refuse=True)
        publisher = Publisher(world.client("publisher", "a"))
        reader_of_all = Reader(world, world.client("reader", "b"))
        world.run(5.0)
        publisher.publish(altitude=1, name="report")
        read(world, reader_of_all, seconds=3.0)
        assert len(publisher.receipts) == len(reader_of_all.events) == 1
        world.kill("a")
        world.run(20.0)
        world.heal("b", "c")
        read(world, *at_c.values(), seconds=60.0)
        assert matched(at_c) == {"reported": [1], "assigned": []}


def test_three_units_with_three_dtds_of_one_name(
    texts: dict[str, Settings], tmp_path: Path
) -> None:
    third = folder_with(tmp_path / "third", v1_0=report_text("third"))
    with NetworkWorld(0) as world:
        world.add("a", "x.one", settings=texts["reported"])
        world.add("b", "x.two", gateways=["a"], settings=texts["assigned"])
        world.add("c", "x.three", gateways=["a"], settings=third)
        world.add("d", "y", gateways=["a"])
        world.run(6.0)
        at_d = readers(world, "d")
        others = Reader(world, world.client("third", "d"), by_default("third"))
        publishers = [Publisher(world.client(f"at-{name}", name)) for name in "abc"]
        world.run(3.0)
        for number, publisher in enumerate(publishers, 1):
            publisher.publish(altitude=number, name="report")
        read(world, *at_d.values(), others, seconds=5.0)
        assert matched(at_d) == {"reported": [1], "assigned": [2]}
        assert altitudes(others) == [3]
        (conflict,) = world["d"].types.snapshot()["conflicts"]
        assert sorted(map(len, conflict["texts"].values())) == [1, 1, 1]
        (conflict,) = world["a"].types.snapshot()["conflicts"]
        assert ["x.one/a"] in conflict["texts"].values()


def test_replay_from_the_archive_uses_the_dtd_of_the_origin(
    texts: dict[str, Settings],
) -> None:
    """`c` archives its replica of `a`, which is dead."""
    with NetworkWorld(0, archived=True) as world:
        assert world.archive is not None
        world.add("c", "one", settings=texts["assigned"])
        world.add("a", "one", join=["c"], settings=guarded(texts["reported"]))
        world.run(3.0)
        publishers = [Publisher(world.client(f"at-{name}", name)) for name in "ac"]
        world.run(1.0)
        for number, publisher in enumerate(publishers, 1):
            publisher.publish(altitude=number, name="report")
        world.run(6.0)
        world.archive.is_broken = True
        publishers[0].publish(altitude=3, name="report")
        world.run(1.0)
        assert len(publishers[0].receipts) == 2
        world.kill("a")
        world.archive.is_broken = False
        world.run(60.0)
        world.kill("c")
        world.add("d", "four")
        world.run(2.0)
        late = readers(world, "d", start=ALL)
        read(world, *late.values(), seconds=20.0)
        assert matched(late) == {"reported": [1, 3], "assigned": [2]}
