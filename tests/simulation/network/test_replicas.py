"""`acknowledge = "neighbour"`: acknowledged events survive the loss of their node's disk."""

from __future__ import annotations

import attrs
import pytest

from broker.config import LogSettings, Settings, StreamSettings
from broker.config.recovery import ArchiveSettings
from broker.event.stream import StreamPattern
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, name_of, read
from tests.seeds import seeds

GUARDED = Settings(streams=(StreamSettings(StreamPattern.parse(">"), acknowledge="neighbour"),))


def three_nodes(seed: int) -> NetworkWorld:
    world = NetworkWorld(seed)
    world.add("owner", "c", settings=GUARDED)
    world.add("keeper", "c", join=["owner"])
    world.add("zone", "far", gateways=["keeper"])
    world.run(3.0)
    return world


def publish(world: NetworkWorld, publisher: Publisher, count: int) -> None:
    for _ in range(count):
        publisher.publish()
        world.run(world.random.uniform(0.0, 0.02))


@pytest.mark.parametrize("seed", seeds(1, 6))
def test_acknowledged_events_survive_the_loss_of_the_disk(seed: int) -> None:
    with three_nodes(seed) as world:
        reader = Reader(world, world.client("reader", "zone"))
        publisher = Publisher(world.client("publisher", "owner"))
        world.run_until(lambda: reader.is_flowing)
        world.cut("keeper", "zone", refuse=True)
        publish(world, publisher, 40)
        world.kill("owner")
        world.lose_disk("owner")
        acknowledged = {receipt.event_id for receipt in publisher.receipts}
        assert acknowledged, f"seed {seed}"
        world.heal("keeper", "zone")
        world.run(30.0)
        read(world, reader)
        got = [name_of(event) for event in reader.events]
        lost = {(e.client_id, e.incarnation, e.sequence_number) for e in acknowledged} - set(got)
        assert not lost, f"{sorted(lost)} (seed {seed})"
        assert got == sorted(set(got)), f"seed {seed}"


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_replica_holds_events_while_the_archive_is_down(seed: int) -> None:
    log = LogSettings(max_bytes=64 << 10)
    archive = ArchiveSettings(location="archive", hold_bytes=512 << 10)
    settings = attrs.evolve(GUARDED, log=log, archive=archive)
    with NetworkWorld(seed, archived=True, settings=settings) as world:
        world.add("owner", "c")
        world.add("keeper", "c", join=["owner"])
        world.add("zone", "far", gateways=["keeper"])
        world.run(3.0)
        reader = Reader(world, world.client("reader", "zone"))
        publisher = Publisher(world.client("publisher", "owner"))
        world.run_until(lambda: reader.is_flowing)
        world.cut("keeper", "zone", refuse=True)
        assert world.archive is not None
        world.archive.is_broken = True
        publish(world, publisher, 120)
        world.run(1.0)
        world.kill("owner")
        world.lose_disk("owner")
        acknowledged = {receipt.event_id for receipt in publisher.receipts}
        assert len(acknowledged) == 120, f"seed {seed}"
        world.archive.is_broken = False
        world.heal("keeper", "zone")
        world.run(60.0)
        read(world, reader)
        got = [name_of(event) for event in reader.events]
        lost = {(e.client_id, e.incarnation, e.sequence_number) for e in acknowledged} - set(got)
        assert not lost, f"{sorted(lost)} (seed {seed})"
        assert got == sorted(set(got)), f"seed {seed}"


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_nothing_is_acknowledged_without_a_neighbour(seed: int) -> None:
    with NetworkWorld(seed) as world:
        world.add("owner", "c", settings=GUARDED)
        world.add("other", "c", join=["owner"], start=False)
        world.run(2.0)
        publisher = Publisher(world.client("publisher", "owner"))
        world.run(1.0)
        publish(world, publisher, 20)
        world.run(20.0)
        assert publisher.receipts == []
        world.start("other")
        world.run(40.0)
        assert len(publisher.receipts) == 20, f"seed {seed}"


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_another_neighbour_replaces_a_lost_replica(seed: int) -> None:
    with three_nodes(seed) as world:
        world.add("next", "c", join=["owner"])
        world.run(3.0)
        publisher = Publisher(world.client("publisher", "owner"))
        world.run(1.0)
        publish(world, publisher, 20)
        world.run(1.0)
        assert world.network_of("owner").replicas.replicator.neighbour == "keeper"
        world.kill("keeper")
        world.lose_disk("keeper")
        publish(world, publisher, 20)
        world.run(20.0)
        assert len(publisher.receipts) == 40, f"seed {seed}"
        log = world["owner"].event_log
        span = world["next"].event_log.replica_spans[log.origin]
        assert span.upto == log.coverage[log.origin]
        assert (
            len(world.wait(world["next"].event_log.read_replica(log.origin, (0, 0), 99, 1 << 30)))
            == 40
        )


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_restarted_origin_continues_after_its_replica(seed: int) -> None:
    with three_nodes(seed) as world:
        reader = Reader(world, world.client("reader", "zone"))
        publisher = Publisher(world.client("publisher", "owner"))
        world.run_until(lambda: reader.is_flowing)
        publish(world, publisher, 20)
        world.kill("owner")
        world.run(20.0)
        world.start("owner")
        publish(world, publisher, 20)
        world.run(40.0)
        read(world, reader)
        got = [name_of(event) for event in reader.events]
        assert len(publisher.receipts) == 40
        assert got == sorted(set(got)) and len(got) == 40, f"{got} (seed {seed})"


@pytest.mark.parametrize("seed", seeds(1, 2))
def test_outdated_replica_does_not_answer_for_a_live_origin(
    seed: int,
) -> None:
    with NetworkWorld(seed) as world:
        world.add("former", "far")
        world.add("owner", "c", settings=GUARDED, gateways=["former"])
        world.add("next", "c", join=["owner"], gateways=["former"], start=False)
        world.add("zone", "far", join=["former"])
        world.run(3.0)
        reader = Reader(world, world.client("reader", "zone"))
        publisher = Publisher(world.client("publisher", "owner"))
        world.run_until(lambda: reader.is_flowing)
        publish(world, publisher, 5)
        world.run(1.0)
        world.kill("former")
        world.start("next")
        publish(world, publisher, 5)
        world.run(10.0)
        world.start("former")
        publish(world, publisher, 5)
        read(world, reader, seconds=40.0)
        former = world.network_of("former")
        assert len(former.event_log.replica_spans) == 1 and former.state is not None
        destinations = former.state.destinations()
        assert (
            list(former.replicas.announce_replicas(former.state.is_origin_in_cluster, destinations))
            == []
        ), f"seed {seed}"
        assert len(publisher.receipts) == len(reader.events) == 15
        traffic = world.network_of("zone").traffic
        assert traffic is not None and traffic.receiver.incomplete_origins == 0
        world.kill("owner")
        world.lose_disk("owner")
        for _ in range(2):
            world.run(10.0)
            destinations = former.state.destinations()
            assert (
                len(
                    list(
                        former.replicas.announce_replicas(
                            former.state.is_origin_in_cluster, destinations
                        )
                    )
                )
                == 1
            )
            if "owner" not in world.running:
                world.start("owner")
