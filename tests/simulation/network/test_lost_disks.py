"""The disk of a node is lost, and no neighbour kept copies: that is told, the rest comes."""

from __future__ import annotations

import attrs
import pytest

from broker.config import Settings, StreamSettings
from broker.event.stream import StreamPattern
from broker.testing.simulated_network import NetworkWorld
from tests.seeds import seeds
from tests.simulation.network.watching import Publisher, Reader, read

MIB = 1 << 20


def guarded_and_short() -> Settings:
    """A keeper has copies, and like the log it keeps little."""
    settings = Settings(
        streams=(StreamSettings(StreamPattern.parse(">"), acknowledge="neighbour"),)
    )
    return attrs.evolve(settings, log=attrs.evolve(settings.log, max_bytes=4 * MIB))


def lost_while_cut_off(
    world: NetworkWorld, publisher: Publisher, reader: Reader, *, disk: bool = True
) -> str:
    """The reader's node has 1 to 5 and 11; then the origin is lost with its disk, or without. Its
    name."""
    for _ in range(5):
        publisher.publish()
    world.run(1.0)
    world.cut("a", "b", refuse=True)
    for _ in range(5):
        publisher.publish()
    world.run(20.0)
    # What comes behind the hole is there before anybody has asked for what is in it.
    world.heal("a", "b")
    traffic = world.network_of("b").traffic
    assert traffic is not None
    knowledge = world.network_of("a").state
    assert knowledge is not None
    world.run_until(lambda: bool(knowledge.destinations()))
    publisher.publish()
    world.run_until(lambda: traffic.receiver.incomplete_origins > 0)
    origin = world["a"].event_log.origin
    world.kill("a")
    if disk:
        world.lose_disk("a")
    return origin


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_a_node_without_its_disk_says_what_can_not_be_had_any_more(seed: int) -> None:
    with NetworkWorld(seed) as world:
        world.add("a", "one")
        world.add("b", "two", gateways=["a"])
        world.run(3.0)
        reader = Reader(world, world.client("reader", "b"))
        publisher = Publisher(world, world.client("publisher", "a"))
        world.run_until(lambda: reader.flowing)
        origin = lost_while_cut_off(world, publisher, reader)
        read(world, reader, seconds=60.0)
        had = [event.place.offset for event in reader.events]
        assert had == [1, 2, 3, 4, 5] and reader.gaps == [], f"seed {seed}: the disk may come back"
        world.start("a")
        world.run(20.0)
        publisher.publish()
        read(world, reader, seconds=90.0)
        (gap,) = reader.gaps
        assert (gap.first.origin, gap.first.offset, gap.last.offset) == (origin, 6, 10)
        assert gap.reason == "lost"
        places = [(event.place.origin == origin, event.place.offset) for event in reader.events]
        assert sorted(places) == [(False, 1), *((True, n) for n in (1, 2, 3, 4, 5, 11))]
        assert world.network_of("b").traffic.receiver.incomplete_origins == 0  # type: ignore[union-attr]


@pytest.mark.parametrize("seed", seeds(1, 2))
@pytest.mark.parametrize("away", [0.0, 10.0])
@pytest.mark.parametrize("cluster", ["one", "zero"])
def test_a_keeper_says_what_it_has_no_copies_of_any_more(
    seed: int, away: float, cluster: str
) -> None:
    with NetworkWorld(seed) as world:
        near = cluster == "one"
        world.add("owner", cluster, settings=guarded_and_short())
        known = {"join" if near else "gateways": ["owner"]}
        world.add("keeper", "one", settings=guarded_and_short(), **known)
        world.add("b", "two", gateways=["keeper"])
        world.run(3.0)
        reader = Reader(world, world.client("reader", "b"))
        publisher = Publisher(world, world.client("publisher", "owner"))
        world.run_until(lambda: reader.flowing)
        for _ in range(5):
            publisher.publish()
        read(world, reader)
        world.cut("keeper", "b", refuse=True)
        for _ in range(100):
            publisher.publish(size=50_000)
            world.run(0.05)
        world.run_until(lambda: not publisher.client.unacknowledged)
        origin = world["owner"].event_log.origin
        span = world["keeper"].event_log.kept[origin]
        assert 5 < span.after[1] < 100
        world.kill("owner")
        world.lose_disk("owner")
        world.start("owner")
        # However long the owner has been there again, with an empty disk, before anybody asks.
        world.run(away)
        world.heal("keeper", "b")
        read(world, reader, seconds=120.0)
        (gap,) = reader.gaps
        bounds = (gap.first.origin, gap.first.offset, gap.last.offset)
        assert bounds == (origin, 6, span.after[1])
        had = [event.place.offset for event in reader.events]
        assert had == [1, 2, 3, 4, 5, *range(span.after[1] + 1, 106)]


@pytest.mark.parametrize("comes_back", [False, True])
def test_what_waits_behind_a_node_that_is_gone_goes_on_after_a_while(comes_back: bool) -> None:
    with NetworkWorld(1) as world:
        world.add("a", "one")
        world.add("b", "two", gateways=["a"], patience=200.0)
        world.run(3.0)
        reader = Reader(world, world.client("reader", "b"))
        publisher = Publisher(world, world.client("publisher", "a"))
        world.run_until(lambda: reader.flowing)
        origin = lost_while_cut_off(world, publisher, reader, disk=False)
        world.run(150.0)
        if comes_back:
            world.start("a")
        read(world, reader, seconds=60.0)
        had = [event.place.offset for event in reader.events]
        arrivals = world.network_of("b").traffic.receiver  # type: ignore[union-attr]
        if comes_back:
            assert had == list(range(1, 12)) and reader.gaps == []
            assert arrivals.counts.given_up == 0
        else:
            (gap,) = reader.gaps
            assert (gap.first.origin, gap.first.offset, gap.last.offset) == (origin, 6, 10)
            assert had == [1, 2, 3, 4, 5, 11]
            assert (arrivals.counts.given_up, arrivals.incomplete_origins) == (1, 0)
