from __future__ import annotations

import attrs
import pytest

from broker.config import Settings, StreamSettings
from broker.event.stream import StreamPattern
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, read
from tests.seeds import seeds

MIB = 1 << 20


def guarded_and_short() -> Settings:
    settings = Settings(
        streams=(StreamSettings(StreamPattern.parse(">"), acknowledge="neighbour"),)
    )
    return attrs.evolve(settings, log=attrs.evolve(settings.log, max_bytes=4 * MIB))


def lost_while_cut_off(
    world: NetworkWorld, publisher: Publisher, reader: Reader, *, disk: bool = True
) -> str:
    """The reader's node has events 1 to 5 and 11. Return the origin's identifier."""
    for _ in range(5):
        publisher.publish()
    world.run(1.0)
    world.cut("a", "b", refuse=True)
    for _ in range(5):
        publisher.publish()
    world.run(20.0)
    # The event after the missing range arrives before the range is requested.
    world.heal("a", "b")
    traffic = world.network_of("b").traffic
    assert traffic is not None
    state = world.network_of("a").state
    assert state is not None
    world.run_until(lambda: bool(state.destinations()))
    publisher.publish()
    world.run_until(lambda: traffic.receiver.incomplete_origins > 0)
    origin = world["a"].event_log.origin
    world.kill("a")
    if disk:
        world.lose_disk("a")
    return origin


@pytest.mark.parametrize("signs", [False, True])
@pytest.mark.parametrize("seed", seeds(1, 4))
def test_node_without_its_disk_reports_the_lost_range(
    seed: int, signs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its new key can not report the loss of a log that belonged to another one."""
    if not signs:
        monkeypatch.setattr("broker.node.log_opening.load_node_key", lambda _: None)
    with NetworkWorld(seed) as world:
        world.add("a", "one")
        world.add("b", "two", gateways=["a"], gap_timeout=300.0)
        world.run(3.0)
        reader = Reader(world, world.client("reader", "b"))
        publisher = Publisher(world.client("publisher", "a"))
        world.run_until(lambda: reader.is_flowing)
        origin = lost_while_cut_off(world, publisher, reader)
        read(world, reader, seconds=60.0)
        had = [event.place.offset for event in reader.events]
        assert had == [1, 2, 3, 4, 5] and reader.gaps == [], f"seed {seed}: the disk may come back"
        world.start("a")
        world.run(20.0)
        publisher.publish()
        read(world, reader, seconds=90.0)
        if signs:
            assert reader.gaps == []
            read(world, reader, seconds=200.0)
        (gap,) = reader.gaps
        assert (gap.first.origin, gap.first.offset, gap.last.offset) == (origin, 6, 10)
        assert gap.reason == ("unreachable" if signs else "lost")
        places = [(event.place.origin == origin, event.place.offset) for event in reader.events]
        assert sorted(places) == [(False, 1), *((True, n) for n in (1, 2, 3, 4, 5, 11))]
        assert world.network_of("b").traffic.receiver.incomplete_origins == 0  # type: ignore[union-attr]


@pytest.mark.parametrize("seed", seeds(1, 2))
@pytest.mark.parametrize("away", [0.0, 10.0])
@pytest.mark.parametrize("cluster", ["one", "zero"])
def test_replica_reports_the_range_it_no_longer_holds(seed: int, away: float, cluster: str) -> None:
    with NetworkWorld(seed) as world:
        near = cluster == "one"
        world.add("owner", cluster, settings=guarded_and_short())
        join, gateways = ["owner"] * near, ["owner"] * (not near)
        world.add("keeper", "one", settings=guarded_and_short(), join=join, gateways=gateways)
        world.add("b", "two", gateways=["keeper"])
        world.run(3.0)
        reader = Reader(world, world.client("reader", "b"))
        publisher = Publisher(world.client("publisher", "owner"))
        world.run_until(lambda: reader.is_flowing)
        for _ in range(5):
            publisher.publish()
        read(world, reader)
        world.cut("keeper", "b", refuse=True)
        for _ in range(100):
            publisher.publish(size=50_000)
            world.run(0.05)
        world.run_until(lambda: not publisher.client.unacknowledged)
        origin = world["owner"].event_log.origin
        span = world["keeper"].event_log.replica_spans[origin]
        assert 5 < span.after[1] < 100
        world.kill("owner")
        world.lose_disk("owner")
        world.start("owner")
        # The origin is back, with an empty disk, before it is asked.
        world.run(away)
        world.heal("keeper", "b")
        read(world, reader, seconds=120.0)
        (gap,) = reader.gaps
        bounds = (gap.first.origin, gap.first.offset, gap.last.offset)
        assert bounds == (origin, 6, span.after[1])
        had = [event.place.offset for event in reader.events]
        assert had == [1, 2, 3, 4, 5, *range(span.after[1] + 1, 106)]


@pytest.mark.parametrize("comes_back", [False, True])
def test_missing_range_of_a_dead_node_is_given_up_after_a_while(comes_back: bool) -> None:
    with NetworkWorld(1) as world:
        world.add("a", "one")
        world.add("b", "two", gateways=["a"], gap_timeout=200.0)
        world.run(3.0)
        reader = Reader(world, world.client("reader", "b"))
        publisher = Publisher(world.client("publisher", "a"))
        world.run_until(lambda: reader.is_flowing)
        origin = lost_while_cut_off(world, publisher, reader, disk=False)
        world.run(150.0)
        if comes_back:
            world.start("a")
        read(world, reader, seconds=60.0)
        had = [event.place.offset for event in reader.events]
        receiver = world.network_of("b").traffic.receiver  # type: ignore[union-attr]
        if comes_back:
            assert had == list(range(1, 12)) and reader.gaps == []
            assert receiver.counts.given_up == 0
        else:
            (gap,) = reader.gaps
            assert (gap.first.origin, gap.first.offset, gap.last.offset) == (origin, 6, 10)
            assert gap.reason == "unreachable"
            assert had == [1, 2, 3, 4, 5, 11]
            assert (receiver.counts.given_up, receiver.incomplete_origins) == (1, 0)


@pytest.mark.parametrize(("returns", "moves"), [(True, False), (True, True), (False, False)])
def test_node_that_gives_an_origin_up_does_not_stop_others(returns: bool, moves: bool) -> None:
    """An origin that returns delivers everything to those that wait."""
    with NetworkWorld(1) as world:
        world.add("a", "one")
        world.add("b", "two", gateways=["a"], gap_timeout=20.0)
        world.add("c", "two", join=["b"])
        world.run(3.0)
        reader = Reader(world, world.client("reader", "b"))
        patient = Reader(world, world.client("patient", "c"))
        process = world.client("durable", "b")
        away = Reader(world, process, durable="d")
        publisher = Publisher(world.client("publisher", "a"))
        world.run_until(lambda: reader.is_flowing and patient.is_flowing and away.is_flowing)
        publisher.publish()
        read(world, away, patient)
        world.kill_client(process)
        origin = lost_while_cut_off(world, publisher, reader, disk=False)
        read(world, reader, patient, seconds=60.0)
        (gap,) = reader.gaps
        assert (gap.first.offset, gap.last.offset, gap.reason) == (7, 11, "unreachable")
        assert patient.gaps == [] and len(patient.events) == 6
        if returns:
            world.start("a")
        if moves:
            world.run(10.0)
        back = Reader(
            world, world.client("durable", "c" if moves else "b", incarnation=2), durable="d"
        )
        read(world, patient, back, seconds=60.0 if returns else 80.0)
        if not returns:
            assert {each.reason for each in back.gaps} == {"unreachable"} and not patient.gaps
            return
        for each in (patient, back):
            assert each.gaps == [] and each.error is None
        places = [each.place.offset for each in (*away.events, *back.events)]
        assert places == list(range(1, 13))
        assert [each.place.offset for each in patient.events] == list(range(1, 13))
        assert all(each.place.origin == origin for each in back.events)
