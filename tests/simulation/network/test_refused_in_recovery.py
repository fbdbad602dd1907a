"""Recoveries judge refused and undecided events as live delivery does (M12, T26, P11, X6)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from broker.client.received import Gap
from broker.config import Settings
from broker.event.envelope import EventType
from broker.event.placeholder import placeholder_code
from broker.recovery.messages import PageFetched, unpack_events
from broker.testing.simulated_network import NetworkWorld
from tests.simulation.network.test_types_stay import (
    BY_DEFAULT,
    EVERYTHING,
    REPORT,
    altitudes,
    deaf,
    folder_with,
    report_text,
)
from tests.simulation.network.watching import Publisher, Reader, read
from tests.simulation.watching import Interest

DEEP = b"<flight><id>F</id><flightleg><coordinate><lat>1</lat><lon>2</lon></coordinate>"
DEEP += b"</flightleg></flight>"


@pytest.fixture
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The highest version of the protocol between nodes that all nodes speak."""
    spoken = tuple(range(1, request.param + 1))
    monkeypatch.setattr("broker.cluster.network_factory.PROTOCOL_VERSIONS", spoken)
    yield request.param


@pytest.mark.parametrize("version", [1, 2], indirect=True)
def test_a_node_of_an_earlier_version_gets_no_placeholder_in_a_page(version: int) -> None:
    """A roaming client comes from a node that has refused an event."""
    shallow = Settings()
    shallow = attrs.evolve(shallow, limits=attrs.evolve(shallow.limits, max_depth=4))
    with NetworkWorld(0) as world:
        world.add("a", "one")
        world.add("b", "two", gateways=["a"], settings=shallow)
        world.add("n", "two", join=["b"])
        world.run(5.0)
        rover = Reader(world, world.client("rover", "b"), EVERYTHING, durable="d")
        publisher = Publisher(world, world.client("publisher", "a"))
        world.run(2.0)
        world.kill_client(rover.client)
        publisher.publish("s", altitude=1)
        world.run(0.5)
        deep = world.wait(publisher.client.publish("s", DEEP, EventType("flight", "1.0")))
        publisher.publish("s", altitude=3)
        world.run(3.0)
        codes = pages_at(world, "n")
        back = Reader(world, world.client("rover", "n", incarnation=2), EVERYTHING, durable="d")
        read(world, back, seconds=20.0)
        marks = [receipt.place.mark for receipt in publisher.receipts]
        got = [each.first.mark if isinstance(each, Gap) else each.place.mark for each in back.items]
        assert got == [marks[0], deep.place.mark, marks[1]]
        reasons = [gap.reason for gap in back.gaps]
        if version == 1:
            assert codes and not any(codes)
            # The origin has the event itself.
            assert back.events[1].document.count(b"<coordinate>") == 1 and reasons == []
        else:
            assert codes == [None, "too-large", None] and reasons == ["too-large"]


def pages_at(world: NetworkWorld, name: str) -> list[str | None]:
    """The codes in the placeholders of all pages that come to a node; None for each event."""
    codes: list[str | None] = []
    listeners: dict[type, Any] = world[name].recovery.context.page_exchange._messenger._listeners  # type: ignore[union-attr]
    hear = listeners[PageFetched]

    def fetched(message: PageFetched) -> None:
        codes.extend(placeholder_code(event.document) for event in unpack_events(message.chunks))
        hear(message)

    listeners[PageFetched] = fetched
    return codes


def test_an_undecided_event_is_judged_before_it_is_given_to_a_roaming_client(
    tmp_path: Path,
) -> None:
    settings = folder_with(tmp_path / "types", v1_0=report_text())
    with NetworkWorld(0) as world:
        for name, cluster, more in (
            ("a", "one", {"settings": settings}),
            ("b", "two", {"gateways": ["a"]}),
            ("n", "two", {"join": ["b"]}),
        ):
            world.add(name, cluster, patience=20.0, **more)  # type: ignore[arg-type]
        world.run(5.0)
        for name in "bn":
            world[name].dtds.remove(REPORT)
        deaf(world, "a", "b", "n")
        rover = Reader(world, world.client("rover", "b"), BY_DEFAULT, durable="d")
        publisher = Publisher(world, world.client("publisher", "a"))
        world.run(2.0)
        world.kill_client(rover.client)
        publisher.publish("s", altitude=1, name="report")
        publisher.publish("s", altitude=2)
        publisher.publish("s", altitude=3, name="report")
        world.run(30.0)
        back = Reader(world, world.client("rover", "n", incarnation=2), BY_DEFAULT, durable="d")
        read(world, back, seconds=30.0)
        marks = [receipt.place.mark for receipt in publisher.receipts]
        assert [(gap.reason, gap.first.mark) for gap in back.gaps] == [
            ("unknown-type", marks[0]),
            ("unknown-type", marks[2]),
        ]
        assert back.events == []


def test_a_recovery_judges_events_by_the_text_of_their_origin(tmp_path: Path) -> None:
    texts = {
        name: folder_with(tmp_path / name, v1_0=report_text(name))
        for name in ("reported", "assigned")
    }
    with NetworkWorld(0) as world:
        world.add("a", "one", settings=texts["reported"])
        world.add("b", "two", gateways=["a"], settings=texts["assigned"])
        world.add("n", "two", join=["b"])
        world.run(8.0)
        by_kind = {
            kind: Interest(
                ">", f"/report/reportleg/altitude/@type = '{kind}'", lambda stream, altitude: True
            )
            for kind in texts
        }
        for kind, interest in by_kind.items():
            before = Reader(world, world.client(kind, "b"), interest, durable="d")
            world.run(2.0)
            world.kill_client(before.client)
        publishers = [Publisher(world, world.client(f"at-{name}", name)) for name in "ab"]
        world.run(2.0)
        for number in range(3):
            for index, publisher in enumerate(publishers):
                publisher.publish("s", altitude=10 * index + number, name="report")
            world.run(0.3)
        for first, (kind, interest) in zip((0, 10), by_kind.items(), strict=True):
            back = Reader(world, world.client(kind, "n", incarnation=2), interest, durable="d")
            read(world, back, seconds=10.0)
            assert sorted(altitudes(back)) == [first, first + 1, first + 2], kind
            assert back.gaps == []


def test_what_a_relay_has_refused_is_lost_to_a_restored_origin() -> None:
    """The relay gives back the event behind it, and the place of the refused one is a loss."""
    shallow = Settings()
    shallow = attrs.evolve(shallow, limits=attrs.evolve(shallow.limits, max_depth=4))
    with NetworkWorld(0) as world:
        world.add("a", "one")
        world.add("b", "two", gateways=["a"], settings=shallow)
        world.run(3.0)
        far = Reader(world, world.client("far", "b"), EVERYTHING, durable="d")
        own = Reader(world, world.client("own", "a"), EVERYTHING, durable="d")
        publisher = Publisher(world, world.client("publisher", "a"))
        world.run(2.0)
        publisher.publish("s", altitude=1)
        read(world, far, own, seconds=2.0)
        world.kill_client(own.client)
        copy = world.copy_disk("a")
        world.wait(publisher.client.publish("s", DEEP, EventType("flight", "1.0")))
        publisher.publish("s", altitude=3)
        read(world, far, seconds=2.0)
        assert altitudes(far) == [1, 3] and [gap.reason for gap in far.gaps] == ["too-large"]
        world.kill("a")
        world.restore_disk("a", copy)
        world.start("a")
        world.run(20.0)
        log = world["a"].event_log
        logged = world.wait(log.read_of(log.origin, (0, 0), 1 << 20, 1 << 30))
        assert [placeholder_code(event.document) for event in logged] == [None, None]
        returning = world["a"].recovery.branch_restore
        assert returning is not None
        assert (returning.counts.restored, returning.counts.lost) == (1, 1)
        back = Reader(world, world.client("own", "a", incarnation=2), EVERYTHING, durable="d")
        read(world, back, far, seconds=10.0)
        assert altitudes(back) == [3] and sum(gap.count for gap in back.gaps) == 1
        assert altitudes(far) == [1, 3] and len(far.gaps) == 1
