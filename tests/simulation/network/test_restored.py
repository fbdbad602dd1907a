"""Nodes restored from older copies of their data (issue 18, section 4)."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from broker.client.received import STORED, since
from broker.config.stacks import DEFAULT_STACK, StackInstance
from broker.testing.flights import INTERESTS
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, name_of, read
from tests.seeds import further_cases, seeds
from tests.simulation.network.other_transport import OtherTransport
from tests.simulation.network.simulated_client import settle


def numbers(reader: Reader) -> list[int]:
    return [name_of(event)[2] for event in reader.events]


@pytest.mark.parametrize("seed", seeds(1, 2))
@pytest.mark.parametrize("end", ["running", "clean", "killed"])
def test_other_nodes_return_the_lost_events_of_a_restored_node(seed: int, end: str) -> None:
    with NetworkWorld(seed) as world:
        world.add("a", "one")
        world.add("b", "two", gateways=["a"])
        world.add("c", "three", gateways=["a"])
        world.run(3.0)
        far = Reader(world, world.client("far", "b"), durable="d")
        late = Reader(world, world.client("late", "c"), durable="d")
        own = Reader(world, world.client("own", "a"), durable="d")
        publisher = Publisher(world.client("publisher", "a"))
        world.run_until(lambda: far.is_flowing and late.is_flowing and own.is_flowing)
        for _ in range(10):
            publisher.publish()
        world.run(2.0)
        if end == "running":
            copy = world.copy_disk("a")
        elif end == "clean":
            world.stop("a")
            copy = world.copy_disk("a")
            world.start("a")
        else:
            world.kill("a")
            copy = world.copy_disk("a")
            world.start("a")
        world.run(5.0)
        world.kill("c")
        for _ in range(10):
            publisher.publish()
        world.run(2.0)
        for reader in (far, own):
            reader.read()
            assert numbers(reader) == list(range(1, 21)), f"seed {seed}"
        world.kill("a")
        world.restore_disk("a", copy)
        world.start("a")
        world.start("c")
        world.run(20.0)
        for _ in range(10):
            publisher.publish()
        world.run(30.0)
        for reader in (far, own, late):
            read(world, reader, seconds=30.0)
            assert reader.error is None
            assert sorted(numbers(reader)) == list(range(1, 31)), (reader.client.client_id, seed)
            assert reader.gaps == [], (reader.client.client_id, seed)


@pytest.mark.parametrize("seed", seeds(1, 2))
def test_events_that_no_node_has_are_a_gap(seed: int) -> None:
    with NetworkWorld(seed) as world:
        world.add("a", "one")
        world.add("b", "two", gateways=["a"])
        world.add("c", "three", gateways=["a"])
        world.run(3.0)
        far = Reader(world, world.client("far", "b"), INTERESTS[3], durable="d")
        late = Reader(world, world.client("late", "c"), durable="d")
        own = Reader(world, world.client("own", "a"), durable="d")
        absent_reader = Reader(world, world.client("away", "a"), durable="d")
        publisher = Publisher(world.client("publisher", "a"))
        readers = (far, late, own, absent_reader)
        world.run_until(lambda: all(reader.is_flowing for reader in readers))
        for _ in range(10):
            publisher.publish()
        read(world, *readers)
        copy = world.copy_disk("a")
        world.kill("c")
        world.kill_client(absent_reader.client)
        for number in range(10):
            publisher.publish(altitude=7 if number == 4 else 1000)
        read(world, far, own)
        world.kill("a")
        world.restore_disk("a", copy)
        world.start("a")
        world.start("c")
        world.run(20.0)
        publisher.publish(altitude=7)
        read(world, late, own, far, seconds=30.0)
        returning = Reader(world, world.client("away", "a", incarnation=2), durable="d")
        read(world, returning, late, own, far, seconds=10.0)
        assert numbers(far) == [15, 21] and far.gaps == []
        assert numbers(own) == list(range(1, 22)) and own.gaps == []
        for reader, expected in ((late, [*range(1, 11), 15, 21]), (returning, [15, 21])):
            assert reader.error is None
            assert numbers(reader) == expected, f"seed {seed}"
        # The node of `late` reports the range as removed.
        (gap,) = late.gaps
        assert (gap.first.offset, gap.last.offset, gap.reason) == (11, 20, "retention")
        bounds = [(gap.first.offset, gap.last.offset, gap.reason) for gap in returning.gaps]
        assert bounds == [(11, 14, "lost"), (16, 20, "lost")]
        branch_restore = world["a"].recovery.branch_restore
        assert branch_restore is not None
        assert (branch_restore.counts.restored, branch_restore.counts.lost) == (1, 9)


@pytest.mark.parametrize(
    ("stack", "is_killed"),
    [*product((DEFAULT_STACK, "radar"), (True, False)), ("other", True)],
)
@pytest.mark.parametrize("seed", seeds(1, 10))
def test_a_loss_that_is_recorded_while_a_node_reads_is_one_gap_of_each_flow(
    seed: int, stack: str, is_killed: bool
) -> None:
    # Pages are on their way when the loss is recorded.
    with NetworkWorld(seed, latency=0.3) as world:
        OtherTransport(world, 0.05)
        use = "other" if stack == "other" else DEFAULT_STACK
        stacks = {} if stack == DEFAULT_STACK else {">": StackInstance(stack, use=use)}
        for name, cluster in (("a", "one"), ("b", "two"), ("c", "three")):
            world.add(name, cluster, start=False, gateways=["a"] if name != "a" else [])
            world.set_stacks(name, stacks)
            world.start(name)
        world.run(3.0)
        far = Reader(world, world.client("far", "b"), INTERESTS[3], durable="d")
        late = Reader(world, world.client("late", "c"), durable="d")
        publisher = Publisher(world.client("publisher", "a"))
        world.run_until(lambda: far.is_flowing and late.is_flowing)
        for _ in range(10):
            publisher.publish()
        read(world, far, late, seconds=3.0)
        copy = world.copy_disk("a")
        if is_killed:
            world.kill("c")
        else:
            world.cut("a", "c")
            world.cut("b", "c")
        for number in range(10):
            publisher.publish(altitude=7 if number == 4 else 1000)
        read(world, far, seconds=3.0)
        world.kill("a")
        world.restore_disk("a", copy)
        world.start("a")
        if is_killed:
            world.start("c")
        else:
            world.heal("a", "c")
            world.heal("b", "c")
        world.run(20.0)
        publisher.publish(altitude=7)
        read(world, far, late, seconds=30.0)
        assert numbers(late) == [*range(1, 11), 15, 21]
        flow = world["a"].event_log.origin + ("" if stack == DEFAULT_STACK else "/>")
        (gap,) = [each for each in late.gaps if each.first.origin == flow]
        # On the lost branch, or at the empty places that stand for it.
        assert gap.last.offset == 20 and gap.count in (9, 10)


def three_clusters(world: NetworkWorld) -> Path:
    """Return an empty copy of the disk of `a`."""
    world.add("a", "one")
    world.add("near", "two", gateways=["a"])
    world.add("far", "three", gateways=["a", "near"])
    world.run(3.0)
    world.stop("a")
    copy = world.copy_disk("a")
    world.start("a")
    world.run(3.0)
    return copy


@pytest.mark.parametrize(
    ("archived", "more", "moment"),
    [
        *product((False,), (1,), (-5.0, 0.5, 3.0)),
        *product((False,), (30,), (-1.0, 1.5, 8.0)),
        *product((True,), (30,), (-5.0, 0.5, 3.0)),
        *product((True,), (1,), (-1.0, 1.5, 8.0)),
        *further_cases(
            *product((False,), (30,), (-5.0, 0.5, 3.0)),
            *product((False,), (1,), (-1.0, 1.5, 8.0)),
            *product((True,), (1,), (-5.0, 0.5, 3.0)),
            *product((True,), (30,), (-1.0, 1.5, 8.0)),
        ),
    ],
)
def test_moved_client_gets_the_rest_of_the_lost_branch(
    archived: bool, moment: float, more: int
) -> None:
    """The client's new node has events of the lost branch.

    `moment` is the client's arrival in seconds after the restored node is reachable. `more` events
    are in the log of the restored node by then. An archive has only the start of the lost branch.
    """
    with NetworkWorld(1, archived=archived) as world:
        copy = three_clusters(world)
        static_reader = Reader(world, world.client("stays", "near"))
        moving_reader = Reader(world, world.client("goes", "far"))
        publisher = Publisher(world.client("publisher", "a"))
        world.run_until(lambda: static_reader.is_flowing and moving_reader.is_flowing)
        for _ in range(5):
            publisher.publish()
        read(world, static_reader, moving_reader, seconds=10.0)
        world.kill("far")
        if world.archive is not None:
            world.archive.is_broken = True
        for _ in range(3):
            publisher.publish()
        read(world, static_reader, moving_reader)
        assert (numbers(static_reader), numbers(moving_reader)) == ([*range(1, 9)], [*range(1, 6)])
        assert moving_reader.subscription is not None
        position = moving_reader.subscription.position
        origin = world["a"].event_log.origin
        world.kill("a")
        world.restore_disk("a", copy)
        world.cut("a", "near", refuse=True)
        if world.archive is not None:
            world.archive.is_broken = False
        world.start("a")
        for _ in range(more):
            publisher.publish()
        world.run_until(lambda: not publisher.client.unacknowledged)
        # `a` is off the map of `near`.
        world.run(30.0)
        world.clock.callLater(5.0, world.heal, "a", "near")
        world.run(5.0 + moment)
        moved_reader = Reader(world, world.client("went", "near"), start=since(position))
        publisher.publish()
        read(world, static_reader, moved_reader, seconds=90.0)
        for reader, first in ((static_reader, 1), (moved_reader, 6)):
            assert reader.error is None
            assert [n for n in sorted(numbers(reader)) if n >= first] == [*range(first, 10 + more)]
            repeated = [
                event for event in moved_reader.events if event.place.mark <= position.marks[origin]
            ]
            assert not repeated
            assert reader.gaps == []


@pytest.mark.parametrize("moment", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("more", [1, 30])
def test_previous_node_without_the_end_of_a_branch_does_not_hide_it(
    moment: float, more: int
) -> None:
    """The previous node was cut off before the end of the lost branch, and has the new branch.

    `moment` is the client's arrival in seconds after the nodes can reach each other again.
    """
    with NetworkWorld(1) as world:
        copy = three_clusters(world)
        static_reader = Reader(world, world.client("stays", "near"))
        moving_reader = Reader(world, world.client("goes", "far"), durable="d")
        publisher = Publisher(world.client("publisher", "a"))
        world.run_until(lambda: static_reader.is_flowing and moving_reader.is_flowing)
        for _ in range(5):
            publisher.publish()
        read(world, static_reader, moving_reader, seconds=10.0)
        world.kill_client(moving_reader.client)
        for name in ("a", "near"):
            world.cut(name, "far", refuse=True)
        world.run(5.0)
        for _ in range(3):
            publisher.publish()
        read(world, static_reader)
        assert (numbers(static_reader), numbers(moving_reader)) == ([*range(1, 9)], [*range(1, 6)])
        world.kill("a")
        world.restore_disk("a", copy)
        world.cut("a", "near", refuse=True)
        world.start("a")
        world.heal("a", "far")
        for _ in range(more):
            publisher.publish()
        world.run_until(lambda: not publisher.client.unacknowledged)
        world.run(30.0)
        world.clock.callLater(5.0, world.heal, "near", "far")
        world.run(5.0 + moment)
        moved_reader = Reader(
            world, world.client("goes", "near", incarnation=2), durable="d", start=STORED
        )
        publisher.publish()
        world.clock.callLater(30.0, world.heal, "a", "near")
        read(world, static_reader, moved_reader, seconds=120.0)
        for reader, first in ((static_reader, 1), (moved_reader, 6)):
            assert reader.error is None
            assert sorted(numbers(reader)) == [*range(first, 10 + more)]
            assert reader.gaps == []


@pytest.mark.parametrize("seed", seeds(1, 2))
def test_restored_node_with_an_earlier_clock_repeats_no_place(seed: int) -> None:
    """The lost branch started an hour later than the clock says now."""
    with NetworkWorld(seed) as world:
        world.add("a", "one")
        world.add("b", "two", gateways=["a"])
        world.run(3.0)
        far = Reader(world, world.client("far", "b"), durable="d")
        publisher = Publisher(world.client("publisher", "a"))
        world.run_until(lambda: far.is_flowing)
        publisher.publish()
        world.run(2.0)
        copy = world.copy_disk("a")
        world.stop("a")
        world.set_clock_offset("a", 3_600_000)
        world.start("a")
        world.run(5.0)
        for _ in range(10):
            publisher.publish()
        world.run(2.0)
        world.kill("a")
        world.restore_disk("a", copy)
        world.set_clock_offset("a", 0)
        world.start("a")
        other = Publisher(world.client("other", "a"))
        for _ in range(5):
            other.publish()
        world.run(20.0)
        publisher.publish()
        settle(world, [publisher, other], [far], seconds=30.0)
        assert len(far.events) == 17 and far.gaps == []


def test_whole_loss_is_reported_with_an_earlier_clock() -> None:
    """Another node shows the lost branch after its offsets are reused."""
    with NetworkWorld(1) as world:
        world.add("a", "one")
        world.add("b", "two", gateways=["a"])
        world.run(3.0)
        far = Reader(world, world.client("far", "b"), INTERESTS[3], durable="d")
        absent_reader = Reader(world, world.client("away", "a"), durable="d")
        publisher = Publisher(world.client("publisher", "a"))
        world.run_until(lambda: far.is_flowing and absent_reader.is_flowing)
        publisher.publish()
        read(world, absent_reader)
        world.kill_client(absent_reader.client)
        copy = world.copy_disk("a")
        world.stop("a")
        world.set_clock_offset("a", 3_600_000)
        world.start("a")
        world.run(5.0)
        for _ in range(10):
            publisher.publish()
        world.run(2.0)
        world.kill("a")
        world.restore_disk("a", copy)
        world.set_clock_offset("a", 0)
        world.cut("a", "b", refuse=True)
        world.start("a")
        other = Publisher(world.client("other", "a"))
        for _ in range(5):
            other.publish()
        world.run(5.0)
        world.heal("a", "b")
        world.run(20.0)
        publisher.publish()
        returning = Reader(world, world.client("away", "a", incarnation=2), durable="d")
        read(world, returning, seconds=30.0)
        assert sum(gap.last.offset - gap.first.offset + 1 for gap in returning.gaps) == 10
        assert len(returning.events) == 6 and returning.error is None
