"""DTDs are fetched by the nodes that events pass (M13, M14, T25)."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from broker.config import Settings
from broker.dtd.catalogue import shipped_folder
from broker.dtd.reference import DtdReference
from broker.event.envelope import EventType
from broker.testing.flights import Interest, flight
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, read
from tests.seeds import seeds
from tests.simulation.network.simulated_client import settle

ALL = Interest(">", "true()", lambda stream, altitude: True)
REPORT = DtdReference("report", "1.0")


def report_settings(folder: Path, *versions: str) -> Settings:
    """The catalogue has the flight DTD with the name `report`."""
    folder.mkdir(exist_ok=True)
    text = (shipped_folder() / "flight-1.0.dtd").read_text().replace("flight", "report")
    entries = []
    for version in versions:
        (folder / f"report-{version}.dtd").write_text(text.replace("1.0", version, 1))
        public = f"-//xmlbroker//DTD report {version}//EN"
        entries.append(f'<public publicId="{public}" uri="report-{version}.dtd"/>')
    catalogue = '<catalog xmlns="urn:oasis:names:tc:entity:xmlns:xml:catalog" prefer="public">'
    (folder / "catalog.xml").write_text(f"{catalogue}{''.join(entries)}</catalog>")
    settings = Settings()
    return attrs.evolve(settings, types=attrs.evolve(settings.types, folders=(folder,)))


def line_of_three(world: NetworkWorld, settings: Settings) -> None:
    world.add("a", "one", settings=settings)
    world.add("b", "two", gateways=["a"])
    world.add("c", "three", gateways=["b"])
    world.run(2.0)


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_dtd_is_fetched_once_from_the_previous_hop_and_order_is_kept(
    seed: int, tmp_path: Path
) -> None:
    with NetworkWorld(seed) as world:
        line_of_three(world, report_settings(tmp_path / "types", "1.0"))
        publisher = Publisher(world.client("publisher", "a"))
        direct = Publisher(world.client("direct", "b"))
        reader = Reader(world, world.client("reader", "c"), ALL)
        world.run(2.0)
        world.delay("a", "b", 0.3)
        for number in range(40):
            publisher.publish(altitude=number, name="report" if number % 2 else "flight")
            direct.publish(altitude=number)
            world.run(0.01)
        settle(world, [publisher, direct], [reader])
        altitudes = [
            int(event.document.split(b"<altitude>")[1].split(b"<")[0])
            for event in reader.events
            if event.event_id.client_id == "publisher"
        ]
        assert altitudes == list(range(40))
        # The gateway matches events that enter its unit.
        for name in "bc":
            assert world[name].dtds.get(REPORT) is not None
            assert world[name]._neighbour_dtds.asked == 1
        assert world["a"]._neighbour_dtds.answered == world["b"]._neighbour_dtds.answered == 1


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_two_versions_of_a_type_are_fetched(seed: int, tmp_path: Path) -> None:
    with NetworkWorld(seed) as world:
        line_of_three(world, report_settings(tmp_path / "types", "1.0", "1.1"))
        client = world.client("publisher", "a")
        reader = Reader(world, world.client("reader", "c"), ALL)
        world.run(2.0)
        for number in range(20):
            payload = flight(number).replace(b"flight", b"report")
            client.publish("s", payload, EventType("report", f"1.{number % 2}"))
            world.run(0.02)
        read(world, reader, seconds=5.0)
        assert len(reader.events) == 20
        for version in ("1.0", "1.1"):
            assert world["c"].dtds.get(DtdReference("report", version)) is not None
