from __future__ import annotations

import pytest

from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, read
from tests.seeds import seeds
from tests.simulation.network.simulated_client import settle

SEEDS = seeds(1, 4)


def numbers(reader: Reader, publisher: str) -> list[int]:
    ids = [event.header.event_id for event in reader.events]
    return [each.sequence_number for each in ids if each.client_id == publisher]


def add_two_nodes(world: NetworkWorld, *, far: bool) -> None:
    world.add("here", "one")
    if far:
        world.add("there", "two", gateways=["here"])
    else:
        world.add("there", "one", join=["here"])
    world.run(4.0)


def restart_without_disk(world: NetworkWorld) -> Publisher:
    world.kill("there")
    world.lose_disk("there")
    world.run(1.0)
    world.cut("here", "there", refuse=True)
    world.start("there")
    publisher = Publisher(world.client("publisher", "there"))
    world.run_until(lambda: publisher.client.connected)
    for _ in range(5):
        publisher.publish()
    world.run_until(lambda: not publisher.client.unacknowledged)
    assert not world.are_linked("here", "there")
    return publisher


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_earlier_subscription_gets_all_events_of_a_new_origin(seed: int, far: bool) -> None:
    with NetworkWorld(seed) as world:
        add_two_nodes(world, far=far)
        reader = Reader(world, world.client("reader", "here"))
        world.run_until(lambda: reader.is_flowing)
        publisher = restart_without_disk(world)
        world.heal("here", "there")
        world.run_until(lambda: world.are_linked("here", "there"))
        publisher.publish()
        settle(world, [publisher], [reader], seconds=10.0)
        assert numbers(reader, "publisher") == [1, 2, 3, 4, 5, 6]
        assert reader.gaps == []


@pytest.mark.parametrize("seed", SEEDS)
def test_later_subscription_gets_no_earlier_events(seed: int) -> None:
    with NetworkWorld(seed) as world:
        add_two_nodes(world, far=True)
        publisher = restart_without_disk(world)
        world.heal("here", "there")
        world.run_until(lambda: world.are_linked("here", "there"))
        world.run(3.0)
        reader = Reader(world, world.client("reader", "here"))
        world.run_until(lambda: reader.is_flowing)
        publisher.publish()
        read(world, reader, seconds=5.0)
        assert numbers(reader, "publisher") == [6]


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_durable_subscription_gets_events_of_a_new_origin_while_away(
    seed: int, restarts: bool
) -> None:
    """The subscriber's node may have been down, too."""
    with NetworkWorld(seed) as world:
        add_two_nodes(world, far=True)
        first = Reader(world, world.client("reader", "here"), durable="d")
        world.run_until(lambda: first.is_flowing)
        world.kill_client(first.client)
        if restarts:
            world.kill("here")
        publisher = restart_without_disk(world)
        if restarts:
            world.start("here")
        world.heal("here", "there")
        world.run_until(lambda: world.are_linked("here", "there"))
        publisher.publish()
        world.run(5.0)
        second = Reader(world, world.client("reader", "here", incarnation=2), durable="d")
        read(world, second, seconds=10.0)
        assert numbers(second, "publisher") == [1, 2, 3, 4, 5, 6]
        assert second.gaps == []


@pytest.mark.parametrize("seed", SEEDS)
def test_two_clients_at_an_empty_node_get_their_own_missing_events(seed: int) -> None:
    """One client is further ahead."""
    with NetworkWorld(seed) as world:
        world.add("there", "one")
        for name in ("first", "second", "third"):
            world.add(name, "one", join=["there"])
        world.run(4.0)
        slow = Reader(world, world.client("slow", "first", "third", longest_wait=0.2))
        quick = Reader(world, world.client("quick", "second", "third", longest_wait=0.2))
        publisher = Publisher(world.client("publisher", "there"))
        world.run_until(lambda: slow.is_flowing and quick.is_flowing and publisher.client.connected)
        publisher.publish()
        read(world, slow, quick, seconds=2.0)
        world.kill("first")
        world.kill("third")
        world.lose_disk("third")
        for _ in range(5):
            publisher.publish()
        read(world, quick, seconds=2.0)
        assert (len(slow.events), len(quick.events)) == (1, 6)
        world.cut("there", "third", refuse=True)
        world.cut("second", "third", refuse=True)
        world.start("third")
        world.kill("second")
        read(world, slow, quick, seconds=1.0)
        world.heal("there", "third")
        for name in ("first", "second"):
            world.start(name)
        publisher.publish()
        settle(world, [publisher], [slow, quick], seconds=20.0)
        assert numbers(slow, "publisher") == numbers(quick, "publisher") == [1, 2, 3, 4, 5, 6, 7]
        assert slow.gaps == quick.gaps == []
