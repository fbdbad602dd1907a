"""Order entries of events at clients (`broker.event.order_entry`)."""

from __future__ import annotations

import pytest

from broker.client.received import ALL
from broker.event.order_entry import OrderEntry, encode_order_entry
from broker.event.place import Mark
from broker.streams.contract import CarriedEvent
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, read
from tests.seeds import seeds
from tests.simulation.network.other_transport import AnnotatingTransport
from tests.simulation.network.test_annotations import start_pair
from tests.simulation.network.test_archive_catch_up import SILENCE
from tests.simulation.network.test_flow_recovery import numbers, publish
from tests.simulation.network.test_flows import SLOW

SEEDS = seeds(1, 5)


def entry_at(mark: Mark) -> OrderEntry:
    return OrderEntry("ops", "a", *mark, 1000 - mark[1], "hybrid", 5, bool(mark[1] % 2))


def entry_of(event: CarriedEvent) -> bytes:
    return encode_order_entry(entry_at(event.mark))


def check_order(reader: Reader, count: int) -> None:
    """Check that exactly the events of the transport have their entries."""
    assert sorted(numbers(reader)) == list(range(1, count + 1)) and reader.gaps == []
    for event in reader.events:
        expected = entry_at(event.place.mark) if event.stream == SLOW else None
        assert event.order == expected


def test_live_events_and_those_of_the_log_have_their_entries() -> None:
    with NetworkWorld(1) as world:
        transport = AnnotatingTransport(world)
        transport.annotate = entry_of
        start_pair(world, transport)
        readers = [Reader(world, world.client(f"at-{name}", name)) for name in "ab"]
        world.run_until(lambda: all(reader.is_flowing for reader in readers))
        publish(world, Publisher(world.client("publisher", "a")), 10)
        read(world, *readers, seconds=5.0)
        late = [Reader(world, world.client(f"late-{name}", name), start=ALL) for name in "ab"]
        world.run_until(lambda: all(reader.is_flowing for reader in late))
        read(world, *late, seconds=5.0)
        for reader in (*readers, *late):
            check_order(reader, 20)


@pytest.mark.parametrize("seed", SEEDS)
def test_recovered_and_replayed_events_have_their_entries(seed: int) -> None:
    with NetworkWorld(seed, archived=True) as world:
        transport = AnnotatingTransport(world)
        transport.annotate = entry_of
        start_pair(world, transport)
        reader = Reader(world, world.client("reader", "b"))
        world.run_until(lambda: reader.is_flowing)
        publisher = Publisher(world.client("publisher", "a"))
        publish(world, publisher, 4)
        read(world, reader, seconds=3.0)
        world.cut("a", "b", refuse=True)
        transport.loses = lambda _: True
        publish(world, publisher, 20)
        world.run(5.0)
        world.kill("a")
        replayed = Reader(world, world.client("replayed", "b"), start=ALL)
        read(world, reader, replayed, seconds=SILENCE)
        check_order(reader, 48)
        check_order(replayed, 48)


def test_clients_of_earlier_versions_get_no_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    with NetworkWorld(1) as world:
        transport = AnnotatingTransport(world)
        transport.annotate = entry_of
        start_pair(world, transport)
        new = Reader(world, world.client("new", "a"))
        world.run_until(lambda: new.is_flowing)
        with monkeypatch.context() as patch:
            patch.setattr("broker.client.settings.PROTOCOL_VERSIONS", (1, 2, 3))
            old = Reader(world, world.client("old", "a"))
            world.run_until(lambda: old.is_flowing)
        publish(world, Publisher(world.client("publisher", "a")), 5)
        read(world, old, new)
        check_order(new, 10)
        assert len(old.events) == 10
        assert {event.order for event in old.events} == {None}
        assert [event.header for event in old.events] == [event.header for event in new.events]
