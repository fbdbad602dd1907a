"""Recovery treats refused and undecided events like live delivery (M12, T26, P11, X6)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest

from broker.client.received import Gap
from broker.config import Settings
from broker.event.envelope import EventType
from broker.event.placeholder import placeholder_code
from broker.recovery.messages import PageFetched, unpack_events
from broker.testing.flights import Interest
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, read
from tests.simulation.network.test_type_distribution import (
    BY_DEFAULT,
    EVERYTHING,
    REPORT,
    altitudes,
    folder_with,
    report_text,
    stop_answering,
)

DEEP = b"<flight><id>F</id><flightleg><coordinate><lat>1</lat><lon>2</lon></coordinate>"
DEEP += b"</flightleg></flight>"


@pytest.fixture
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    spoken = tuple(range(1, request.param + 1))
    monkeypatch.setattr("broker.cluster.network_factory.PROTOCOL_VERSIONS", spoken)
    # Such nodes sign nothing.
    monkeypatch.setattr("broker.node.log_opening.load_node_key", lambda _: None)
    yield request.param


@pytest.mark.parametrize("version", [1, 2], indirect=True)
def test_node_of_an_earlier_version_gets_no_placeholders(version: int) -> None:
    shallow = Settings()
    shallow = attrs.evolve(shallow, limits=attrs.evolve(shallow.limits, max_depth=4))
    with NetworkWorld(0) as world:
        world.add("a", "one")
        world.add("b", "two", gateways=["a"], settings=shallow)
        world.add("n", "two", join=["b"])
        world.run(5.0)
        rover = Reader(world, world.client("rover", "b"), EVERYTHING, durable="d")
        publisher = Publisher(world.client("publisher", "a"))
        world.run(2.0)
        world.kill_client(rover.client)
        publisher.publish("s", altitude=1)
        world.run(0.5)
        deep = world.wait(publisher.client.publish("s", DEEP, EventType("flight", "1.0")))
        publisher.publish("s", altitude=3)
        world.run(3.0)
        codes = pages_at(world, "n")
        returning = Reader(
            world, world.client("rover", "n", incarnation=2), EVERYTHING, durable="d"
        )
        read(world, returning, seconds=20.0)
        marks = publisher.marks
        got = [
            each.first.mark if isinstance(each, Gap) else each.place.mark
            for each in returning.items
        ]
        assert got == [marks[0], deep.place.mark, marks[1]]
        reasons = [gap.reason for gap in returning.gaps]
        if version == 1:
            assert codes and not any(codes)
            # The origin has the event itself.
            assert returning.events[1].document.count(b"<coordinate>") == 1 and reasons == []
        else:
            assert codes == [None, "too-large", None] and reasons == ["too-large"]


def pages_at(world: NetworkWorld, name: str) -> list[str | None]:
    """Placeholder codes of the events of all pages."""
    codes: list[str | None] = []
    listeners: dict[type, Any] = world[name].recovery.context.page_exchange._messenger._listeners  # type: ignore[union-attr]
    receive = listeners[PageFetched]

    def receive_page(message: PageFetched) -> None:
        codes.extend(placeholder_code(event.document) for event in unpack_events(message.chunks))
        receive(message)

    listeners[PageFetched] = receive_page
    return codes


def test_undecided_event_is_decided_before_a_roaming_client_gets_it(
    tmp_path: Path,
) -> None:
    settings = folder_with(tmp_path / "types", v1_0=report_text())
    with NetworkWorld(0) as world:
        add = partial(world.add, gap_timeout=20.0)
        add("a", "one", settings=settings)
        add("b", "two", gateways=["a"])
        add("n", "two", join=["b"])
        world.run(5.0)
        for name in "bn":
            world[name].dtds.remove(REPORT)
        stop_answering(world, "a", "b", "n")
        rover = Reader(world, world.client("rover", "b"), BY_DEFAULT, durable="d")
        publisher = Publisher(world.client("publisher", "a"))
        world.run(2.0)
        world.kill_client(rover.client)
        publisher.publish("s", altitude=1, name="report")
        publisher.publish("s", altitude=2)
        publisher.publish("s", altitude=3, name="report")
        world.run(30.0)
        returning = Reader(
            world, world.client("rover", "n", incarnation=2), BY_DEFAULT, durable="d"
        )
        read(world, returning, seconds=30.0)
        marks = publisher.marks
        assert [(gap.reason, gap.first.mark) for gap in returning.gaps] == [
            ("unknown-type", marks[0]),
            ("unknown-type", marks[2]),
        ]
        assert returning.events == []


def test_recovery_uses_the_dtd_of_each_origin(tmp_path: Path) -> None:
    texts = {
        name: folder_with(tmp_path / name, v1_0=report_text(name))
        for name in ("reported", "assigned")
    }
    with NetworkWorld(0) as world:
        world.add("a", "one", settings=texts["reported"])
        world.add("b", "two", gateways=["a"], settings=texts["assigned"])
        world.add("n", "two", join=["b"])
        world.run(8.0)
        by_default = {
            default: Interest(
                ">",
                f"/report/reportleg/altitude/@type = '{default}'",
                lambda stream, altitude: True,
            )
            for default in texts
        }
        for default, interest in by_default.items():
            before = Reader(world, world.client(default, "b"), interest, durable="d")
            world.run(2.0)
            world.kill_client(before.client)
        publishers = [Publisher(world.client(f"at-{name}", name)) for name in "ab"]
        world.run(2.0)
        for number in range(3):
            for index, publisher in enumerate(publishers):
                publisher.publish("s", altitude=10 * index + number, name="report")
            world.run(0.3)
        for first, (default, interest) in zip((0, 10), by_default.items(), strict=True):
            returning = Reader(
                world, world.client(default, "n", incarnation=2), interest, durable="d"
            )
            read(world, returning, seconds=10.0)
            assert sorted(altitudes(returning)) == [first, first + 1, first + 2], default
            assert returning.gaps == []


def test_event_refused_by_a_relay_is_lost_to_a_restored_origin() -> None:
    shallow = Settings()
    shallow = attrs.evolve(shallow, limits=attrs.evolve(shallow.limits, max_depth=4))
    with NetworkWorld(0) as world:
        world.add("a", "one")
        world.add("b", "two", gateways=["a"], settings=shallow)
        world.run(3.0)
        far = Reader(world, world.client("far", "b"), EVERYTHING, durable="d")
        own = Reader(world, world.client("own", "a"), EVERYTHING, durable="d")
        publisher = Publisher(world.client("publisher", "a"))
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
        logged = world.wait(log.read_origin(log.origin, (0, 0), 1 << 20, 1 << 30))
        assert [placeholder_code(event.document) for event in logged] == [None, None]
        branch_restore = world["a"].recovery.branch_restore
        assert branch_restore is not None
        assert (branch_restore.counts.restored, branch_restore.counts.lost) == (1, 1)
        returning = Reader(world, world.client("own", "a", incarnation=2), EVERYTHING, durable="d")
        read(world, returning, far, seconds=10.0)
        assert altitudes(returning) == [3] and sum(gap.count for gap in returning.gaps) == 1
        assert altitudes(far) == [1, 3] and len(far.gaps) == 1
