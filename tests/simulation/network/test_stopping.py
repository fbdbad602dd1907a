"""A stopping node hands over its events, clients and routes (Q17)."""

from __future__ import annotations

import pytest

from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, name_of, read
from tests.seeds import seeds
from tests.simulation.network.simulated_client import settle


def publish(world: NetworkWorld, publisher: Publisher, count: int) -> None:
    for _ in range(count):
        publisher.publish()
        world.run(world.random.uniform(0.0, 0.01))


@pytest.mark.parametrize("seed", seeds(2, 8))
def test_stopped_node_has_sent_all_acknowledged_events(seed: int) -> None:
    with NetworkWorld(seed) as world:
        world.add("leaving", "one")
        world.add("gateway", "one", join=["leaving"])
        world.add("zone", "two", gateways=["gateway"])
        world.run(3.0)
        reader = Reader(world, world.client("reader", "zone"))
        publisher = Publisher(world.client("publisher", "leaving"))
        world.run_until(lambda: reader.is_flowing)
        publish(world, publisher, 60)
        world.stop("leaving")
        acknowledged = {receipt.event_id for receipt in publisher.receipts}
        assert acknowledged, f"seed {seed}"
        read(world, reader)
        got = [name_of(event) for event in reader.events]
        lost = {(e.client_id, e.incarnation, e.sequence_number) for e in acknowledged} - set(got)
        assert not lost, f"{sorted(lost)} (seed {seed})"
        assert got == sorted(set(got)), f"seed {seed}"
        assert reader.gaps == []


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_clients_of_a_stopped_node_move_to_the_next_one(seed: int) -> None:
    with NetworkWorld(seed) as world:
        world.add("leaving", "one")
        world.add("next", "one", join=["leaving"])
        world.run(2.0)
        other = Publisher(world.client("other", "next"))
        moving = Publisher(world.client("publisher", "leaving", "next"))
        reader = Reader(world, world.client("reader", "leaving", "next"))
        bystander = Reader(world, world.client("beside", "next"))
        world.run(3.0)
        for number in range(60):
            other.publish()
            moving.publish()
            world.run(0.02)
            read(world, reader, bystander, seconds=0.0)
            if number == 30:
                world.stop("leaving")
                world.run(0.5)
                assert moving.client.connected and reader.client.connected, f"seed {seed}"
        read(world, reader, bystander)
        assert len(reader.events) == len(bystander.events) == 120, f"seed {seed}"
        world.start("leaving")
        settle(world, [other, moving], [reader, bystander])
        assert len(reader.events) == len(bystander.events) == 120, f"seed {seed}"
        assert reader.gaps == bystander.gaps == [], f"seed {seed}"


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_traffic_through_a_stopped_node_takes_another_route(seed: int) -> None:
    with NetworkWorld(seed) as world:
        world.add("source", "one")
        world.add("leaving", "one", join=["source"])
        world.add("other", "one", join=["source"])
        world.add("zone", "two", gateways=["leaving", "other"])
        world.run(3.0)
        reader = Reader(world, world.client("reader", "zone"))
        publisher = Publisher(world.client("publisher", "source"))
        world.run_until(lambda: reader.is_flowing)
        publish(world, publisher, 40)
        world.stop("leaving")
        publish(world, publisher, 40)
        settle(world, [publisher], [reader], seconds=2.0)
        assert len(reader.events) == 80 and reader.gaps == [], f"seed {seed}"
