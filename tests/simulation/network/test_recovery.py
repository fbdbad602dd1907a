"""What is in no log that can be asked comes from the archive, joined to the live flow (X6, N14)."""

from __future__ import annotations

import pytest

from broker.client.received import STORED
from broker.event.envelope import Liveness
from broker.testing.simulated_network import NetworkWorld
from tests.simulation.network.test_gaps import fill, short_log
from tests.simulation.network.watching import INTERESTS, Publisher, Reader, read, settle, truths

SEEDS = range(4)


def a_cluster(world: NetworkWorld, *names: str) -> None:
    for name in names:
        world.add(name, "c", join=names[:1] if name != names[0] else ())
    world.run(4.0)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("interest", [0, 1])
def test_what_a_dead_node_logged_comes_from_the_archive(seed: int, interest: int) -> None:
    with NetworkWorld(seed, archived=True) as world:
        a_cluster(world, "a", "b", "c")
        publishers = [Publisher(world, world.client(f"p-{name}", name)) for name in "ab"]
        client = world.client("reader", "c", "b", longest_wait=0.2)
        reader = Reader(world, client, INTERESTS[interest], durable="d")
        world.run_until(lambda: reader.flowing)
        for _ in range(10):
            for publisher in publishers:
                publisher.publish("asdi.zbw.tz")
        read(world, reader)
        # Away; meanwhile much is published, and a dies for good.
        world.network.refuse(world.address("c", "reader"))
        world.network.refuse(world.address("b", "reader"))
        world.cut_client("reader")
        for _ in range(20):
            for publisher in publishers:
                publisher.publish("asdi.zbw.tz")
            world.run(0.2)
        world.run_until(lambda: not any(each.client.unacknowledged for each in publishers))
        world.run(5.0)
        seen = truths(world)
        world.kill("a")
        world.kill("c")
        publishers[1].publish("asdi.zbw.tz")
        world.network.heal(world.address("b", "reader"))
        settle(world, publishers[1:], [reader], seconds=60.0, seen=seen)
        assert world.archive is not None and world.archive.requests
        assert reader.gaps == []
        recovered = [each for each in reader.events if each.liveness is Liveness.RECOVERY]
        assert len(recovered) >= 10


@pytest.mark.parametrize("seed", SEEDS)
def test_what_retention_took_comes_from_the_archive(seed: int) -> None:
    with NetworkWorld(seed, archived=True) as world:
        world.add("a", "one", settings=short_log())
        world.run(1.0)
        publisher = Publisher(world, world.client("publisher", "a"))
        process = world.client("away", "a")
        away = Reader(world, process, durable="d")
        world.run_until(lambda: away.flowing)
        publisher.publish()
        read(world, away)
        world.kill_client(process)
        for _ in range(6):
            fill(world, publisher, 10)
            world.run(3.0)
        first = world["a"].event_log.bounds.first
        assert first > 3
        back = Reader(world, world.client("away", "a", incarnation=2), durable="d", start=STORED)
        publisher.publish()
        read(world, back, seconds=30.0)
        came = [each.event_id.sequence_number for each in (*away.events, *back.events)]
        assert came == list(range(1, publisher.published + 1))
        assert back.error is None and back.gaps == []
        assert world.archive is not None
        (request,) = world.archive.requests
        # What the log has is not asked for.
        assert [upto for _, upto in request.ranges.values()] == [(1, first - 1)]


@pytest.mark.parametrize("seed", SEEDS)
def test_what_retention_took_before_it_was_archived_is_told(seed: int) -> None:
    with NetworkWorld(seed, archived=True) as world:
        world.add("a", "one", settings=short_log())
        world.run(1.0)
        publisher = Publisher(world, world.client("publisher", "a"))
        process = world.client("away", "a")
        away = Reader(world, process, durable="d")
        world.run_until(lambda: away.flowing)
        publisher.publish()
        read(world, away)
        world.kill_client(process)
        assert world.archive is not None
        world.archive.broken = True
        fill(world, publisher)
        lost = world["a"].event_log.bounds.first - 1
        world.archive.broken = False
        world.run(5.0)
        back = Reader(world, world.client("away", "a", incarnation=2), durable="d", start=STORED)
        publisher.publish()
        read(world, back, seconds=30.0)
        came = [each.event_id.sequence_number for each in back.events]
        told = [n for gap in back.gaps for n in range(gap.first.offset, gap.last.offset + 1)]
        assert sorted(came + told) == list(range(2, publisher.published + 1))
        assert lost - 5 < len(told) < lost
