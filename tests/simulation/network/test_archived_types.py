"""The archive stores the DTDs of its events, from any node (X9, M13)."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.client.received import ALL
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


@pytest.mark.parametrize("subscribes", [False, True], ids=["replay", "from the beginning"])
def test_node_replays_an_unknown_type_from_the_archive(tmp_path: Path, subscribes: bool) -> None:
    """The archiving node fetched the DTD from its neighbour."""
    settings = folder_with(tmp_path / "types", v1_0=report_text())
    with NetworkWorld(0, archived=True) as world:
        world.add("a", "one", settings=settings)
        world.add("b", "two", gateways=["a"])
        world.run(3.0)
        assert world["b"].dtds.known_hash(REPORT) is not None
        publisher = Publisher(world.client("publisher", "b"))
        for altitude in range(5):
            publisher.publish(altitude=altitude, name="report")
        world.run(5.0)
        assert len(publisher.receipts) == 5
        for name in "ab":
            world.kill(name)
        world.add("d", "four")
        world.run(2.0)
        assert REPORT not in world["d"].dtds.references()
        client = world.client("reader", "d")
        if subscribes:
            reader = Reader(world, client, BY_DEFAULT, start=ALL)
            read(world, reader, seconds=20.0)
            assert altitudes(reader) == list(range(5)) and reader.gaps == []
        else:
            replay = client.replay(query=BY_DEFAULT.query)
            world.run(20.0)
            found = [e.document for e in replay.take_ready()]
            assert [b"<altitude>%d<" % n in d for n, d in enumerate(found)] == [True] * 5
