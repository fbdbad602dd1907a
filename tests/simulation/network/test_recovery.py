"""Events in no reachable log come from the archive, spliced with the live flow (X6, N14)."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.client.received import ALL, STORED, Start
from broker.event.envelope import Liveness
from broker.testing.flights import INTERESTS
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, name_of, read, read_logs
from tests.seeds import seeds
from tests.simulation.network.simulated_client import settle
from tests.simulation.network.test_gaps import overflow_log, short_log
from tests.simulation.network.test_replicas import GUARDED

SEEDS = seeds(1, 4)


def add_cluster(world: NetworkWorld, *names: str) -> None:
    for name in names:
        world.add(name, "c", join=names[:1] if name != names[0] else ())
    world.run(4.0)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("interest", [0, 1])
def test_events_of_a_dead_node_come_from_the_archive(seed: int, interest: int) -> None:
    with NetworkWorld(seed, archived=True) as world:
        add_cluster(world, "a", "b", "c")
        publishers = [Publisher(world.client(f"p-{name}", name)) for name in "ab"]
        client = world.client("reader", "c", "b", longest_wait=0.2)
        reader = Reader(world, client, INTERESTS[interest], durable="d")
        world.run_until(lambda: reader.is_flowing)
        for _ in range(10):
            for publisher in publishers:
                publisher.publish("asdi.zbw.tz")
        read(world, reader)
        world.network.refuse(world.client_address("c", "reader"))
        world.network.refuse(world.client_address("b", "reader"))
        world.cut_client("reader")
        for _ in range(20):
            for publisher in publishers:
                publisher.publish("asdi.zbw.tz")
            world.run(0.2)
        world.run_until(lambda: not any(each.client.unacknowledged for each in publishers))
        world.run(5.0)
        seen = read_logs(world)
        world.kill("a")
        world.kill("c")
        publishers[1].publish("asdi.zbw.tz")
        world.network.heal(world.client_address("b", "reader"))
        settle(world, publishers[1:], [reader], seconds=60.0, seen=seen)
        assert world.archive is not None and world.archive.requests
        assert reader.gaps == []
        recovered = [each for each in reader.events if each.liveness is Liveness.RECOVERY]
        assert len(recovered) >= 10


@pytest.mark.parametrize("seed", SEEDS)
def test_events_removed_by_retention_come_from_the_archive(seed: int) -> None:
    with NetworkWorld(seed, archived=True) as world:
        world.add("a", "one", settings=short_log())
        world.run(1.0)
        publisher = Publisher(world.client("publisher", "a"))
        process = world.client("away", "a")
        absent_reader = Reader(world, process, durable="d")
        world.run_until(lambda: absent_reader.is_flowing)
        publisher.publish()
        read(world, absent_reader)
        world.kill_client(process)
        for _ in range(6):
            overflow_log(world, publisher, 10)
            world.run(3.0)
        first = world["a"].event_log.bounds.first
        assert first > 3
        returning = Reader(
            world, world.client("away", "a", incarnation=2), durable="d", start=STORED
        )
        publisher.publish()
        read(world, returning, seconds=30.0)
        received = [
            each.event_id.sequence_number for each in (*absent_reader.events, *returning.events)
        ]
        assert received == list(range(1, publisher.published + 1))
        assert returning.error is None and returning.gaps == []
        assert world.archive is not None
        (request,) = world.archive.requests
        epoch = world["a"].event_log.bounds.epoch
        assert [upto for _, upto in request.ranges.values()] == [(epoch, first - 1)]


@pytest.mark.parametrize("found", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_origin_rewrites_damaged_events_of_the_archive(seed: int, found: bool) -> None:
    """With `found`, the damage is known before a recovery reads it."""
    with NetworkWorld(seed, archived=True) as world:
        world.add("gone", "before")
        world.run(1.0)
        old = Publisher(world.client("p-gone", "gone"))
        old.publish("asdi.zbw.tz")
        world.run(2.5)
        seen = read_logs(world)
        world.kill("gone")
        add_cluster(world, "a", "b")
        publishers = [Publisher(world.client(f"p-{name}", name)) for name in "ab"]
        for _ in range(3):
            for publisher in publishers:
                publisher.publish("asdi.zbw.tz")
            world.run(2.5)
        assert world.archive is not None
        archive = world.archive.open()
        origin = world["a"].event_log.origin
        file = next(each for each in archive.state().files.values() if origin in each.spans)
        path = Path(world.archive.uri) / file.path
        path.write_bytes(path.read_bytes()[:-1])
        if found:
            archive.set_aside(file, "for the test")
        reader = Reader(world, world.client("reader", "b"), start=ALL)
        settle(world, publishers, [reader], seconds=60.0, seen=seen)
        assert [request.others for request in world.archive.requests][0]
        assert reader.gaps == []
        state = world.archive.open().state()
        assert list(state.aside) == [file.path] and not state.damaged_files


@pytest.mark.parametrize("seed", SEEDS)
def test_events_removed_before_they_were_archived_are_a_gap(seed: int) -> None:
    with NetworkWorld(seed, archived=True) as world:
        world.add("a", "one", settings=short_log())
        world.run(1.0)
        publisher = Publisher(world.client("publisher", "a"))
        process = world.client("away", "a")
        absent_reader = Reader(world, process, durable="d")
        world.run_until(lambda: absent_reader.is_flowing)
        publisher.publish()
        read(world, absent_reader)
        world.kill_client(process)
        assert world.archive is not None
        world.archive.is_broken = True
        overflow_log(world, publisher)
        lost = world["a"].event_log.bounds.first - 1
        world.archive.is_broken = False
        world.run(5.0)
        returning = Reader(
            world, world.client("away", "a", incarnation=2), durable="d", start=STORED
        )
        publisher.publish()
        read(world, returning, seconds=30.0)
        received = [each.event_id.sequence_number for each in returning.events]
        reported = [
            n for gap in returning.gaps for n in range(gap.first.offset, gap.last.offset + 1)
        ]
        assert sorted(received + reported) == list(range(2, publisher.published + 1))
        assert lost - 5 < len(reported) < lost


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("start", [STORED, ALL])
def test_archive_has_events_of_a_dead_node_that_others_do_not_know(seed: int, start: Start) -> None:
    with NetworkWorld(seed, archived=True) as world:
        add_cluster(world, "a", "b")
        publisher = Publisher(world.client("p-a", "a"))
        process = world.client("rover", "a")
        before = Reader(world, process, durable="d")
        world.run_until(lambda: before.is_flowing)
        for _ in range(10):
            publisher.publish("asdi.zbw.tz")
        read(world, before)
        world.kill_client(process)
        world.run(5.0)
        world.cut("a", "b", refuse=True)
        for _ in range(10):
            publisher.publish("asdi.zbw.tz")
        world.run(5.0)
        world.kill("a")
        world.lose_disk("a")
        world.run(20.0)
        durable = "d" if start is STORED else ""
        after = Reader(
            world, world.client("rover", "b", incarnation=2), durable=durable, start=start
        )
        read(world, after, seconds=90.0)
        assert after.error is None and after.gaps == []
        numbers = [event.event_id.sequence_number for event in after.events]
        assert numbers == list(range(11 if durable else 1, 21))


@pytest.mark.parametrize("seed", SEEDS)
def test_new_process_resumes_after_the_loss_of_its_node_and_disk(seed: int) -> None:
    """The process has no state."""
    with NetworkWorld(seed, archived=True) as world:
        add_cluster(world, "a", "b", "c")
        publishers = [Publisher(world.client(f"p-{name}", name)) for name in "ab"]
        process = world.client("rover", "a")
        before = Reader(world, process, INTERESTS[1], durable="d")
        world.run_until(lambda: before.is_flowing)
        for publisher in publishers:
            for _ in range(10):
                publisher.publish("asdi.zbw.tz")
        read(world, before)
        world.kill_client(process)
        for publisher in publishers:
            for _ in range(10):
                publisher.publish("asdi.zbw.tz")
        world.run(5.0)
        seen = read_logs(world)
        world.kill("a")
        world.lose_disk("a")
        publishers[1].publish("asdi.zbw.tz")
        world.run(1.0)
        after = Reader(world, world.client("rover", "b", incarnation=2), INTERESTS[1], durable="d")
        read(world, after, seconds=90.0)
        assert after.error is None and after.gaps == []
        got = [name_of(event) for event in (*before.events, *after.events)]
        assert len(got) == len(set(got))
        assert set(got) == set(before.expected(read_logs(world, seen)))
        assert len(after.events) == 21


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("archived", [True, False], ids=["archive", "copies"])
def test_events_held_only_by_a_replica_are_recovered(seed: int, archived: bool) -> None:
    """The origin's disk is lost before its events were archived."""
    with NetworkWorld(seed, archived=archived) as world:
        world.add("owner", "c", settings=GUARDED)
        world.add("keeper", "c", join=["owner"])
        world.add("other", "c", join=["owner"])
        world.run(4.0)
        publisher = Publisher(world.client("publisher", "owner"))
        process = world.client("rover", "other")
        before = Reader(world, process, durable="d")
        world.run_until(lambda: before.is_flowing)
        for _ in range(5):
            publisher.publish()
        read(world, before)
        world.run(3.0)
        world.kill_client(process)
        world.kill("other")
        if world.archive is not None:
            world.archive.is_broken = True
        for _ in range(20):
            publisher.publish()
        world.run_until(lambda: not publisher.client.unacknowledged)
        world.kill("owner")
        world.lose_disk("owner")
        if world.archive is not None:
            world.archive.is_broken = False
        world.run(40.0)
        # Only the archive or the disk of `other` has the client's position.
        world.start("other")
        after = Reader(world, world.client("rover", "other", incarnation=2), durable="d")
        read(world, after, seconds=60.0)
        received = [each.event_id.sequence_number for each in (*before.events, *after.events)]
        assert received == list(range(1, 26))
        assert after.error is None and after.gaps == []


@pytest.mark.parametrize("seed", SEEDS)
def test_client_of_a_dead_node_gets_events_from_the_replica(seed: int) -> None:
    with NetworkWorld(seed, archived=True) as world:
        world.add("owner", "c", settings=GUARDED)
        world.add("keeper", "c", join=["owner"])
        world.add("other", "c", join=["owner"])
        world.run(4.0)
        publisher = Publisher(world.client("publisher", "owner"))
        process = world.client("rover", "owner")
        before = Reader(world, process, durable="d")
        world.run_until(lambda: before.is_flowing)
        for _ in range(5):
            publisher.publish()
        read(world, before)
        world.run(5.0)
        world.kill_client(process)
        assert world.archive is not None
        world.archive.is_broken = True
        for _ in range(20):
            publisher.publish()
        world.run_until(lambda: not publisher.client.unacknowledged)
        world.kill("owner")
        world.lose_disk("owner")
        world.archive.is_broken = False
        after = Reader(world, world.client("rover", "other", incarnation=2), durable="d")
        read(world, after, seconds=90.0)
        received = [each.event_id.sequence_number for each in (*before.events, *after.events)]
        assert received == list(range(1, 26)), after.gaps
        assert after.error is None and after.gaps == []


@pytest.mark.parametrize("at", ["keeper", "other"])
@pytest.mark.parametrize("seed", SEEDS)
def test_client_resumes_at_the_node_with_the_replica_or_another(seed: int, at: str) -> None:
    """No subscription matched the events at these nodes."""
    with NetworkWorld(seed) as world:
        world.add("owner", "c", settings=GUARDED)
        world.add("keeper", "c", join=["owner"])
        world.add("other", "c", join=["owner"])
        world.run(4.0)
        publisher = Publisher(world.client("publisher", "owner"))
        reader = Reader(world, world.client("reader", "owner", at, longest_wait=0.2))
        # The replica's node knows the newest place, and has logged none of the events.
        others = [
            Reader(world, world.client(f"of-{name}", name), INTERESTS[2])
            for name in ("keeper", "other")
        ]
        world.run_until(lambda: all(each.is_flowing for each in (reader, *others)))
        publisher.publish()
        read(world, reader)
        world.network.refuse(world.client_address("owner", "reader"))
        world.network.refuse(world.client_address(at, "reader"))
        world.cut_client("reader")
        for _ in range(20):
            publisher.publish()
        world.run_until(lambda: not publisher.client.unacknowledged)
        world.kill("owner")
        world.lose_disk("owner")
        world.run(5.0)
        world.network.heal(world.client_address(at, "reader"))
        read(world, reader, seconds=90.0)
        assert [each.event_id.sequence_number for each in reader.events] == list(range(1, 22))
        assert reader.error is None and reader.gaps == []


@pytest.mark.parametrize("seed", SEEDS)
def test_one_surviving_node_recovers_from_the_archive(seed: int) -> None:
    """All other nodes are lost with their disks (G24)."""
    names = ("a", "b", "c", "d")
    with NetworkWorld(seed, archived=True) as world:
        add_cluster(world, *names)
        publishers = [Publisher(world.client(f"p-{name}", name)) for name in names]
        process = world.client("rover", "a")
        before = Reader(world, process, durable="d")
        world.run_until(lambda: before.is_flowing)
        for _ in range(5):
            for publisher in publishers:
                publisher.publish("asdi.zbw.tz")
        read(world, before)
        world.kill_client(process)
        for _ in range(15):
            for publisher in publishers:
                publisher.publish("asdi.zbw.tz")
        world.run_until(lambda: not any(each.client.unacknowledged for each in publishers))
        world.run(5.0)
        for name in names[:-1]:
            world.kill(name)
            world.lose_disk(name)
        after = Reader(world, world.client("rover", "d", incarnation=2), durable="d")
        publishers[-1].publish("asdi.zbw.tz")
        read(world, after, seconds=90.0)
        received = [each.event_id for each in (*before.events, *after.events)]
        for publisher in publishers:
            own = [e.sequence_number for e in received if e.client_id == publisher.client.client_id]
            assert own == list(range(1, publisher.published + 1))
        assert after.error is None and after.gaps == []
