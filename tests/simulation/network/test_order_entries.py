"""Order entries of events at clients (`broker.event.order_entry`)."""

from __future__ import annotations

import msgpack
import pytest

from broker.archive.archive import Archive
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


def test_the_archive_sorted_by_stamp_and_site_is_the_transcript() -> None:
    with NetworkWorld(1, archived=True) as world:
        transport = AnnotatingTransport(world)
        stamps: dict[str, int] = {}
        expected: list[tuple[int, str, str]] = []

        def annotate(event: CarriedEvent) -> bytes:
            site = msgpack.unpackb(event.record)[0].removeprefix("by-")
            # Both sites give the same stamps.
            stamps[site] = stamps.get(site, -3) + 1
            expected.append((stamps[site], site, event.document.decode()))
            return encode_order_entry(OrderEntry("ops", site, 1, 1, stamps[site], "logical"))

        transport.annotate = annotate
        start_pair(world, transport)
        publishers = [Publisher(world.client(f"by-{name}", name)) for name in "ba"]
        for _ in range(5):
            for publisher in publishers:
                publish(world, publisher, 1)
        world.run(10.0)
        assert world.archive is not None
        archive = Archive.open(world.archive.uri, create=False)
        rows = [
            row
            for file in archive.state().files.values()
            for batch in archive.read(file, checked=True)
            for row in batch.to_pylist()
        ]
        assert len(rows) == 20
        stamped = [row for row in rows if row["stack"] == "ops"]
        assert {row["stream"] for row in stamped} == {SLOW}
        transcript = [
            (row["stack_order"], row["stack_site"], row["document"].decode()) for row in stamped
        ]
        assert sorted(transcript) == sorted(expected) and len(expected) == 10
        others = [row for row in rows if row["stream"] != SLOW]
        names = ("stack", "stack_order", "stack_site", "annotation")
        assert {tuple(row[name] for name in names) for row in others} == {(None,) * 4}
