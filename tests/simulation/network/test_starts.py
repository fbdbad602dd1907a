"""Starts in the past at a node that joined after the events were published."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from broker.client.received import ALL, Start, last, since, since_time
from broker.event.place import Mark, Position
from broker.testing.flights import INTERESTS, LogEntry
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, name_of, read, read_logs
from tests.seeds import further_cases, seeds
from tests.simulation.network.other_transport import OtherTransport
from tests.simulation.network.test_flows import FAST, PATTERN, SLOW, add_node
from tests.simulation.network.test_gaps import overflow_log, short_log

SEEDS = seeds(1, 4)
#: They reach the other nodes without an archive, too.
RECOVERED = (since(Position()), last(1_000))
IN_THE_LOG = (ALL, since_time(1))


def cases(one: Start, other: Start) -> list[Any]:
    """Return each pair of start, flows and durable; the further combinations and seeds are for the
    soak."""
    usual = [(0, one, False, ""), (0, one, True, "d"), (0, other, False, "d"), (0, other, True, "")]
    every = product(range(4), (one, other), (False, True), ("", "d"))
    return [*usual, *further_cases(*(case for case in every if case not in usual))]


class LateNode:
    """Node `late` joins while clients of `a` and `b` publish, one of them behind a restart."""

    def __init__(self, world: NetworkWorld, *, flows: bool) -> None:
        self.world = world
        self._patterns = (PATTERN,) if flows else ()
        self._transport = OtherTransport(world, 0.05, lambda number: number % 3 == 0)
        self._add("a")
        self._add("b", "a")
        world.run(4.0)
        self.publishers = [Publisher(world.client(f"p-{name}", name)) for name in "ab"]
        self.publish(5)
        world.kill("a")
        world.start("a")
        self.publish(5)
        self._add("late", "a")
        self.publish(5)
        self.readers: list[Reader] = []

    def _add(self, name: str, *join: str) -> None:
        add_node(self._transport, name, *self._patterns, join=join)

    def publish(self, count: int) -> None:
        for _ in range(count):
            for publisher in self.publishers:
                publisher.publish(FAST)
                publisher.publish(SLOW)
            read(self.world, *getattr(self, "readers", ()), seconds=0.1)

    def subscribe(self, start: Start, durable: str = "") -> Reader:
        client = self.world.client(f"reader-{len(self.readers)}", "late")
        reader = Reader(self.world, client, start=start, durable=durable)
        self.readers.append(reader)
        return reader

    def settle(self) -> None:
        publishers = self.publishers
        self.world.run_until(lambda: not any(each.client.unacknowledged for each in publishers))
        read(self.world, *self.readers, seconds=20.0)


def check_order(reader: Reader) -> None:
    """Each event came once, in the order of its flow."""
    assert reader.error is None and reader.gaps == [] and reader.wrong_liveness == []
    newest: dict[str, Mark] = {}
    for event in reader.events:
        assert newest.get(event.place.origin, (0, 0)) < event.place.mark
        newest[event.place.origin] = event.place.mark
    assert len({name_of(event) for event in reader.events}) == len(reader.events)


def check_whole_past(late: LateNode, start: Start, durable: str) -> None:
    first = late.subscribe(start, durable)
    late.publish(10)
    second = late.subscribe(start, durable)
    late.publish(10)
    late.settle()
    for reader in (first, second):
        check_order(reader)
        assert {*map(name_of, reader.events)} == reader.expected(read_logs(late.world)).keys()
        assert len(reader.events) == 140
        assert reader.subscription is not None and reader.subscription.warnings == ()


@pytest.mark.parametrize(("seed", "start", "flows", "durable"), cases(*IN_THE_LOG))
def test_with_an_archive_every_start_gets_the_past_of_all_nodes(
    seed: int, start: Start, flows: bool, durable: str
) -> None:
    with NetworkWorld(seed, archived=True) as world:
        check_whole_past(LateNode(world, flows=flows), start, durable)


@pytest.mark.parametrize(("seed", "start", "flows", "durable"), cases(*RECOVERED))
def test_positions_and_last_events_reach_all_nodes_without_an_archive(
    seed: int, start: Start, flows: bool, durable: str
) -> None:
    with NetworkWorld(seed) as world:
        check_whole_past(LateNode(world, flows=flows), start, durable)


@pytest.mark.parametrize(("seed", "start", "flows", "durable"), cases(*IN_THE_LOG))
def test_without_an_archive_all_and_times_start_in_the_log_of_the_node(
    seed: int, start: Start, flows: bool, durable: str
) -> None:
    with NetworkWorld(seed) as world:
        late = LateNode(world, flows=flows)
        narrow = Reader(world, world.client("narrow", "late"), INTERESTS[1])
        late.readers.append(narrow)
        late.publish(5)
        first = late.subscribe(start, durable)
        world.run_until(lambda: narrow.is_flowing and first.is_flowing)
        late.publish(10)
        second = late.subscribe(start, durable)
        late.publish(10)
        late.settle()
        log = world["late"].event_log
        logged = world.wait(log.read(log.bounds.first, 1 << 20, 1 << 60))
        wanted = set(map(name_of, map(LogEntry.of, logged)))
        for reader in (first, second):
            check_order(reader)
            assert {*map(name_of, reader.events)} == wanted
            assert reader.subscription is not None
            (warning,) = reader.subscription.warnings
            assert "a replay asks all nodes" in warning
        assert first.subscription is not None
        behind = first.subscription.cut.marks
        for name, (origin, entry) in first.expected(read_logs(world)).items():
            assert name in wanted or entry.mark <= behind[entry.flow], origin
        assert not wanted >= first.expected(read_logs(world)).keys()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_replay_reaches_all_nodes_without_an_archive(seed: int) -> None:
    with NetworkWorld(seed) as world:
        LateNode(world, flows=True)
        client = world.client("reader", "late")
        world.run_until(lambda: client.connected)
        world.run(3.0)
        replay = client.replay()
        found = []
        while not replay.over:
            world.run(0.1)
            found += replay.take_ready()
        assert len({name_of(event) for event in found}) == len(found) == 60


@pytest.mark.parametrize("archived", [False, True])
@pytest.mark.parametrize("durable", ["", "d"])
@pytest.mark.parametrize("seed", SEEDS)
def test_events_that_retention_removed_are_archived_or_a_gap(
    seed: int, durable: str, archived: bool
) -> None:
    with NetworkWorld(seed, archived=archived) as world:
        world.add("a", "c", settings=short_log())
        world.run(2.0)
        publisher = Publisher(world.client("publisher", "a"))
        for _ in range(4):
            overflow_log(world, publisher, 15)
            world.run(3.0)
        removed = world["a"].event_log.bounds.first - 1
        assert removed > 3
        world.add("late", "c", join=["a"])
        start = ALL if archived else since(Position())
        reader = Reader(world, world.client("reader", "late"), start=start, durable=durable)
        read(world, reader, seconds=20.0)
        assert [name_of(e)[2] for e in reader.events] == list(
            range(1 if archived else removed + 1, 61)
        )
        gaps = [(gap.first.offset, gap.last.offset) for gap in reader.gaps]
        assert gaps == ([] if archived else [(1, removed)])
