"""A node with another key continues under another name of its log (`docs/signatures.md`)."""

from __future__ import annotations

import pytest

from broker.signatures.node_key import FILE_NAME
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, read
from tests.simulation.network.test_replicas import publish
from tests.simulation.network.test_signatures import logged
from tests.simulation.network.test_silent_origins import SILENCE


def change_key(world: NetworkWorld, name: str) -> str:
    """Return the name of the log before."""
    origin = world[name].event_log.origin
    world.stop(name)
    (world._folder / name / FILE_NAME).unlink()
    world.start(name)
    assert world[name].event_log.origin != origin
    return origin


@pytest.mark.parametrize("is_cut", [False, True])
def test_rotation_logs_no_event_again_and_loses_none(is_cut: bool) -> None:
    with NetworkWorld(1) as world:
        world.add("a", "one")
        world.add("b", "two", gateways=["a"])
        world.run(4.0)
        publisher = Publisher(world.client("publisher", "a"))
        reader = Reader(world, world.client("reader", "b"), durable="d")
        near = Reader(world, world.client("near", "a"), durable="n")
        world.run_until(lambda: reader.is_flowing and near.is_flowing)
        publish(world, publisher, 5)
        read(world, reader)
        if is_cut:
            world.cut("a", "b", refuse=True)
        publish(world, publisher, 3)
        read(world, near)
        world.kill_client(near.client)
        change_key(world, "a")
        world.heal("a", "b")
        near = Reader(world, world.client("near", "a", incarnation=2), durable="n")
        read(world, reader, seconds=SILENCE if is_cut else 10.0)
        assert [each.event_id.sequence_number for each in reader.events] == list(range(1, 9))
        assert reader.gaps == []
        publish(world, publisher, 2)
        read(world, reader, seconds=5.0)
        read(world, near, seconds=5.0)
        assert [each.event_id.sequence_number for each in reader.events] == list(range(1, 11))
        assert [each.event_id.sequence_number for each in near.events] == [9, 10]
        assert len(logged(world, "a")) == 10


def test_rotation_logs_again_what_the_archive_misses() -> None:
    with NetworkWorld(1, archived=True) as world:
        world.add("a", "one")
        world.add("b", "two", gateways=["a"])
        world.run(4.0)
        archive = world.archive
        assert archive is not None
        publisher = Publisher(world.client("publisher", "a"))
        publish(world, publisher, 5)
        world.run(20.0)
        archive.is_broken = True
        publish(world, publisher, 3)
        change_key(world, "a")
        world.run(20.0)
        assert len(logged(world, "a")) == 8
        archive.is_broken = False
        world.run(40.0)
        documents = [each.document for each in logged(world, "a")]
        assert documents[8:] == documents[5:8], "the archiver knows the present name alone"
        assert world["a"].event_log.pending_adoption is None
