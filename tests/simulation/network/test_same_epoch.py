"""Two processes on copies of one log that use the same places (issue 18, section 4)."""

from __future__ import annotations

import pytest

from broker.errors import Cloned
from broker.event.record import RECORD_FIELDS, limit_fields
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import EventName, Reader, name_of, read
from tests.seeds import seeds


def published(client: str, count: int) -> list[EventName]:
    return [(client, 1, number) for number in range(1, count + 1)]


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_clones_started_at_the_same_moment(seed: int) -> None:
    with NetworkWorld(seed) as world:
        world.add("b", "two")
        world.add("a", "one", gateways=["b"])
        world.add("twin", "one", gateways=["b"], configured_name="a", start=False)
        world.run(3.0)
        far = Reader(world, world.client("far", "b"), durable="d")
        first = Publisher(world.client("first", "a"))
        world.run_until(lambda: far.is_flowing)
        for _ in range(5):
            first.publish()
        read(world, far)
        world.stop("a")
        world.clone_disk("a", "twin")
        world.start("a")
        world.start("twin")
        assert world["a"].event_log.newest_own == world["twin"].event_log.newest_own
        at_a = Publisher(world.client("at-a", "a"))
        at_twin = Publisher(world.client("at-twin", "twin"))
        for publisher in (at_a, at_twin):
            for _ in range(5):
                publisher.publish()
        world.run(60.0)
        read(world, far)
        assert len(at_a.receipts) == len(at_twin.receipts) == 5
        stopped_node = _find_stopped(world, "a", "twin")
        continuing = at_twin if stopped_node == "a" else at_a
        assert set(published(continuing.client.client_id, 5)) <= set(map(name_of, far.events))
        world.kill(stopped_node)
        world.rename(stopped_node, "a-2")
        world.start(stopped_node)
        read(world, far, seconds=60.0)
        expected = published("at-a", 5) + published("at-twin", 5) + published("first", 5)
        assert sorted(map(name_of, far.events)) == expected, f"seed {seed}"
        assert far.gaps == []


def _find_stopped(world: NetworkWorld, *names: str) -> str:
    stopped = []
    for name in names:
        try:
            world[name].event_log.check_available()
        except Cloned:
            stopped.append(name)
    (stopped_node,) = stopped
    return stopped_node


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("lost", [3, 5, 8])
def test_second_process_reuses_the_places_of_the_first(lost: int, restarted: bool) -> None:
    """The clock is behind, so each process on the copy starts the same next epoch.

    The other node never had links to both.
    """
    with NetworkWorld(lost) as world:
        world.add("b", "two")
        world.add("a", "one", gateways=["b"], start=False)
        world.set_clock_offset("a", 3_600_000)
        world.start("a")
        world.run(3.0)
        far = Reader(world, world.client("far", "b"), durable="d")
        first = Publisher(world.client("first", "a"))
        world.run_until(lambda: far.is_flowing)
        first.publish()
        read(world, far)
        world.stop("a")
        world.set_clock_offset("a", 0)
        copy = world.copy_disk("a")
        world.start("a")
        previous = Publisher(world.client("previous", "a"))
        for _ in range(lost):
            previous.publish()
        read(world, far, seconds=5.0)
        epoch = world["a"].event_log.newest_own[0]
        world.kill_client(previous.client)
        world.kill("a")
        if restarted:
            world.kill("b")
            world.start("b")
        world.restore_disk("a", copy)
        world.cut("a", "b", refuse=True)
        world.start("a")
        later = Publisher(world.client("later", "a"))
        for _ in range(5):
            later.publish()
        world.run(5.0)
        assert len(later.receipts) == 5 and world["a"].event_log.newest_own == (epoch, 6)
        world.heal("a", "b")
        own = Reader(world, world.client("own", "a"), durable="d")
        read(world, far, own, seconds=40.0)
        expected = published("first", 1) + published("previous", lost) + published("later", 5)
        assert sorted(map(name_of, far.events)) == sorted(expected)
        assert far.gaps == []
        log = world["a"].event_log
        events = world.wait(log.read_origin(log.origin, (0, 0), 1 << 20, 1 << 30))
        assert len({limit_fields(event.record, RECORD_FIELDS) for event in events}) == len(expected)
        assert log.newest_own[0] > epoch
