"""Event types reach every node of a network and stay there (M12-M17, M29, T21, T25, X10)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest

from broker.client.received import ALL
from broker.config import Settings
from broker.dtd.catalogue import shipped_folder
from broker.dtd.reference import DtdReference
from broker.event.envelope import EventType
from broker.testing.flights import Interest
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, read

EVERYTHING = Interest(">", "true()", lambda stream, altitude: True)
OTHER = Interest("other", "true()", lambda stream, altitude: stream == "other")
BY_DEFAULT = Interest(
    ">", "/report/reportleg/altitude/@type = 'reported'", lambda stream, altitude: True
)
REPORT = DtdReference("report", "1.0")


def report_text(default: str = "reported", version: str = "1.0") -> str:
    """The flight DTD with the name `report` and a default for an attribute of altitude."""
    text = (shipped_folder() / "flight-1.0.dtd").read_text().replace("flight", "report")
    declared = "<!ATTLIST altitude\n          type NMTOKEN "
    assert f"{declared}#IMPLIED" in text
    text = text.replace(f"{declared}#IMPLIED", f'{declared}"{default}"')
    return text.replace("1.0", version, 1)


def moved_altitude() -> str:
    text = report_text(version="2.0")
    text = text.replace("(speed?, altitude?, coordinate?)", "(speed?, position?, coordinate?)")
    return text.replace("<!ELEMENT lat ", "<!ELEMENT position (altitude)>\n<!ELEMENT lat ")


def folder_with(folder: Path, **texts: str) -> Settings:
    """Settings with DTDs by version, with `_` for a dot."""
    folder.mkdir(exist_ok=True)
    entries = []
    for name, text in texts.items():
        version = name.strip("v").replace("_", ".")
        (folder / f"report-{version}.dtd").write_text(text)
        public = f"-//xmlbroker//DTD report {version}//EN"
        entries.append(f'<public publicId="{public}" uri="report-{version}.dtd"/>')
    catalogue = '<catalog xmlns="urn:oasis:names:tc:entity:xmlns:xml:catalog" prefer="public">'
    (folder / "catalog.xml").write_text(f"{catalogue}{''.join(entries)}</catalog>")
    settings = Settings()
    return attrs.evolve(settings, types=attrs.evolve(settings.types, folders=(folder,)))


def line(world: NetworkWorld, settings: Settings, **more: Any) -> None:
    world.add("a", "one", settings=settings, **more)
    world.add("b", "two", gateways=["a"], **more)
    world.add("c", "three", gateways=["b"], **more)
    world.run(3.0)


def stop_answering(world: NetworkWorld, *names: str) -> None:
    for name in names:
        world[name]._neighbour_dtds.receive_message = lambda message: None  # type: ignore[method-assign]


def altitudes(reader: Reader) -> list[int]:
    return [int(e.document.split(b"<altitude>")[1].split(b"<")[0]) for e in reader.events]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return folder_with(tmp_path / "types", v1_0=report_text())


def test_type_is_known_everywhere_before_its_first_event_and_after_a_restart(
    settings: Settings,
) -> None:
    with NetworkWorld(0) as world:
        line(world, settings)
        assert all(REPORT in world[name].dtds.references() for name in "bc")
        # (e)
        client = world.client("reader", "c")
        subscription = world.wait(client.subscribe("/report/reportleg[altitude > 3]"))
        assert subscription.warnings == ()
        world.kill("a")
        world.run(1.0)
        world.add("d", "three", join=["c"])
        world.run(5.0)
        assert REPORT in world["d"].dtds.references()
        # (b)
        for name in "bcd":
            world.kill(name)
        world.start("c")
        assert world["c"].dtds.get(REPORT) is None
        assert REPORT in world["c"].dtds.references()


@pytest.mark.parametrize("graceful", [False, True])
def test_defaults_apply_after_a_restart_of_the_subscribers_node_alone(
    settings: Settings, graceful: bool
) -> None:
    """(b)"""
    with NetworkWorld(0) as world:
        line(world, settings)
        reader = Reader(world, world.client("reader", "c"), BY_DEFAULT, durable="d")
        publisher = Publisher(world.client("publisher", "a"))
        world.run(3.0)
        world.kill_client(reader.client)
        world.run(1.0)
        for number in range(3):
            publisher.publish(altitude=number, name="report")
        world.run(2.0)
        for name in "abc":
            (world.stop if graceful else world.kill)(name)
        world.start("c")
        world.run(1.0)
        again = Reader(world, world.client("reader", "c", incarnation=2), BY_DEFAULT, durable="d")
        # Others may have a newer position.
        read(world, again, seconds=10.0)
        assert altitudes(again) == [0, 1, 2] and again.gaps == []


def test_neighbour_sends_the_dtd_when_the_origin_is_away(settings: Settings) -> None:
    """(a)"""
    with NetworkWorld(0) as world:
        line(world, settings)
        world["c"].dtds.remove(REPORT)
        stop_answering(world, "a")
        reader = Reader(world, world.client("reader", "c"), BY_DEFAULT)
        publisher = Publisher(world.client("publisher", "a"))
        world.run(2.0)
        publisher.publish(altitude=1, name="report")
        read(world, reader, seconds=5.0)
        assert altitudes(reader) == [1] and reader.gaps == []


def test_event_waits_for_its_dtd_and_others_do_not(settings: Settings) -> None:
    with NetworkWorld(0) as world:
        line(world, settings)
        world["c"].dtds.remove(REPORT)
        receive = world["b"]._neighbour_dtds.receive_message
        stop_answering(world, "a", "b")
        waiting = Reader(world, world.client("waiting", "c"), BY_DEFAULT)
        durable = Reader(world, world.client("durable", "c"), BY_DEFAULT, durable="d")
        other = Reader(world, world.client("other", "c"), OTHER)
        without_default = Reader(
            world,
            world.client("flights", "c"),
            Interest(">", "/flight/flightleg/altitude > 0", lambda s, _: True),
        )
        publisher = Publisher(world.client("publisher", "a"))
        world.run(3.0)
        publisher.publish(altitude=1, name="report")
        publisher.publish(altitude=2)
        publisher.publish("other", altitude=3)
        publisher.publish(altitude=4, name="report")
        read(world, waiting, durable, other, without_default, seconds=20.0)
        assert altitudes(other) == [3]
        assert altitudes(without_default) == [2, 3]
        assert waiting.items == durable.items == []
        world.kill("c")
        world.start("c")
        stop_answering(world, "a")
        world["b"]._neighbour_dtds.receive_message = receive  # type: ignore[method-assign]
        read(world, durable, seconds=60.0)
        assert altitudes(durable) == [1, 4] and durable.gaps == []
        world.check_outcomes()


def test_event_without_a_dtd_becomes_a_gap_after_the_timeout(settings: Settings) -> None:
    with NetworkWorld(0) as world:
        line(world, settings, gap_timeout=30.0)
        world["c"].dtds.remove(REPORT)
        stop_answering(world, "a", "b")
        waiting = Reader(world, world.client("waiting", "c"), EVERYTHING)
        by_default = Reader(world, world.client("by-default", "c"), BY_DEFAULT, durable="d")
        publisher = Publisher(world.client("publisher", "a"))
        world.run(3.0)
        for altitude, name in ((1, "flight"), (2, "report"), (3, "flight"), (4, "report")):
            publisher.publish(altitude=altitude, name=name)
        read(world, waiting, by_default, seconds=20.0)
        assert altitudes(waiting) == [1] and waiting.gaps == []
        read(world, waiting, by_default, seconds=20.0)
        assert altitudes(waiting) == [1, 3]
        for reader in (waiting, by_default):
            assert [(gap.reason, gap.count) for gap in reader.gaps] == [("unknown-type", 1)] * 2
        marks = publisher.marks
        assert [gap.first.mark for gap in waiting.gaps] == [marks[1], marks[3]]
        world.check_outcomes()


def test_event_refused_by_a_relay_is_a_gap_with_its_code(settings: Settings) -> None:
    """The middle node has a lower depth limit."""
    shallow = Settings()
    shallow = attrs.evolve(shallow, limits=attrs.evolve(shallow.limits, max_depth=4))
    with NetworkWorld(0) as world:
        world.add("a", "one", settings=settings)
        world.add("b", "two", gateways=["a"], settings=shallow)
        world.add("c", "three", gateways=["b"])
        world.run(3.0)
        readers = [
            Reader(world, world.client(f"at-{name}", name), EVERYTHING, durable="d")
            for name in "bc"
        ]
        absent_reader = Reader(world, world.client("away", "c"), EVERYTHING, durable="d")
        other = Reader(world, world.client("other", "c"), OTHER)
        publisher = Publisher(world.client("publisher", "a"))
        world.run(3.0)
        world.kill_client(absent_reader.client)
        deep = b"<flight><id>F</id><flightleg><coordinate><lat>1</lat><lon>2</lon></coordinate>"
        deep += b"</flightleg></flight>"
        publisher.publish("s", altitude=1)
        world.run(0.5)
        refused = world.wait(publisher.client.publish("s", deep, EventType("flight", "1.0")))
        publisher.publish("s", altitude=3)
        read(world, *readers, other, seconds=5.0)
        absent_reader = Reader(
            world, world.client("away", "c", incarnation=2), EVERYTHING, durable="d"
        )
        read(world, absent_reader, seconds=5.0)
        for reader in (*readers, absent_reader):
            got = [
                item.place.mark if hasattr(item, "place") else (item.reason, item.first.mark)
                for item in reader.items
            ]
            marks = publisher.marks
            assert got == [marks[0], ("too-large", refused.place.mark), marks[1]], got
        assert other.items == []
        world.check_outcomes()


def test_registered_version_notifies_subscribers_everywhere(
    settings: Settings,
) -> None:
    """(d) and M16."""
    with NetworkWorld(0) as world:
        line(world, settings)
        clients = {name: world.client(f"reader-{name}", name) for name in "abc"}
        subscriptions = {
            name: world.wait(client.subscribe("/report/reportleg[altitude > 3]"))
            for name, client in clients.items()
        }
        world.run(2.0)
        answer = world.wait(
            clients["a"].ask(
                "dtd-add", moved_altitude().encode(), type="report", version="2.0", against="1.0"
            )
        )
        assert answer["against"] == "1.0" and answer["registered"]
        assert answer["subscriptions"]["can-not-match-any-more"] >= 2
        assert "/report/reportleg/altitude" in answer["went"]
        world.run(5.0)
        for name in "bc":
            while subscriptions[name].take_ready():
                pass
            (change,) = subscriptions[name].changes
            assert (change.old, change.new) == ("1.0", "2.0"), name
            assert change.effect == "can-not-match-any-more"


def test_event_that_names_a_newer_version_causes_a_notice(
    tmp_path: Path,
) -> None:
    """M29: LatestVersionNum."""
    settings = folder_with(tmp_path / "types", v1_0=report_text(), v2_0=moved_altitude())
    with NetworkWorld(0) as world:
        world.add("a", "one", settings=settings)
        world.run(2.0)
        client = world.client("reader", "a")
        subscription = world.wait(client.subscribe("/report/reportleg[altitude > 3]"))
        payload = b"<report><id>F</id><reportleg><altitude>4</altitude></reportleg></report>"
        world.wait(client.publish("s", payload, EventType("report", "1.0")))
        world.run(2.0)
        assert len(subscription.take_ready()) == 1 and list(subscription.changes) == []
        for latest in (None, None, "2.0", None, None):
            client.publish("s", payload, EventType("report", "1.0", latest))
        world.run(2.0)
        while subscription.take_ready():
            pass
        (change,) = subscription.changes
        assert (change.new, change.effect) == ("2.0", "can-not-match-any-more")


def test_dtds_with_one_name_apply_to_the_events_of_their_origin(tmp_path: Path) -> None:
    one = folder_with(tmp_path / "one", v1_0=report_text("reported"))
    other = folder_with(tmp_path / "other", v1_0=report_text("assigned"))
    with NetworkWorld(0) as world:
        world.add("a", "one", settings=one)
        world.add("b", "two", gateways=["a"])
        world.add("c", "three", gateways=["b"], settings=other)
        world.run(5.0)
        query = "/report/reportleg/altitude/@type = '{}'"
        readers = {
            (name, kind): Reader(
                world,
                world.client(f"{kind}-{name}", name),
                Interest(">", query.format(kind), lambda s, _: True),
                durable="d",
            )
            for name in "abc"
            for kind in ("reported", "assigned")
        }
        publishers = [Publisher(world.client(f"at-{name}", name)) for name in "ac"]
        world.run(3.0)
        for number in range(3):
            publishers[0].publish(altitude=10 + number, name="report")
            publishers[1].publish(altitude=20 + number, name="report")
            world.run(0.2)
        read(world, *readers.values(), seconds=5.0)
        for (name, kind), reader in readers.items():
            first = 10 if kind == "reported" else 20
            assert altitudes(reader) == [first, first + 1, first + 2], (name, kind)
            assert reader.gaps == []
        (conflict,) = world["b"].types.snapshot()["conflicts"]
        assert conflict["type"] == "report 1.0"
        assert sorted(map(len, conflict["texts"].values())) == [1, 1]
        for name in "abc":
            world.kill(name)
        world.start("b")
        world.run(1.0)
        for kind, first in (("reported", 10), ("assigned", 20)):
            late = Reader(
                world,
                world.client(f"late-{kind}", "b"),
                Interest(">", query.format(kind), lambda s, _: True),
                start=ALL,
            )
            read(world, late, seconds=3.0)
            assert altitudes(late) == [first, first + 1, first + 2]
