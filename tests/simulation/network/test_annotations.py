"""Annotations: bytes of a transport in the records of its events (`broker.event.annotation`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgpack
import pytest

from broker.client.received import ALL
from broker.config import Settings
from broker.event.annotation import annotation_of
from broker.event.place import Mark
from broker.event.record import MAX_ANNOTATION_BYTES, split_record
from broker.log.known_flows import stream_of
from broker.log.logged_event import LoggedEvent
from broker.signatures.event_check import find_forged
from broker.streams.contract import CarriedEvent
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, read
from tests.seeds import seeds
from tests.simulation.network.other_transport import (
    AnnotatingTransport,
    OtherTransport,
    received_annotation,
)
from tests.simulation.network.test_archive_catch_up import SILENCE
from tests.simulation.network.test_damaged_logs import damage
from tests.simulation.network.test_flow_recovery import (
    GUARDED,
    add_node,
    numbers,
    publish,
)
from tests.simulation.network.test_flows import FAST, SLOW, flows_of

SEEDS = seeds(1, 5)


def logged(world: NetworkWorld, node: str) -> list[LoggedEvent]:
    events: list[LoggedEvent] = world.wait(world[node].event_log.read(1, 9_999, 1 << 30))
    return events


def own(mark: Mark) -> bytes:
    return f"own {mark[0]}:{mark[1]}".encode()


def error_of(world: NetworkWorld, node: str) -> str:
    transports = world[node].transports
    assert transports is not None
    (error,) = [each["error"] for each in transports.snapshot() if each["use"] == "other"]
    return str(error)


def check_annotations(events: Sequence[LoggedEvent]) -> None:
    """Check that the transport annotated its events, and no others."""
    assert {stream_of(event.record) for event in events} == {FAST, SLOW}
    for event in events:
        is_carried = stream_of(event.record) == SLOW
        expected = own(event.mark) if is_carried else b""
        assert annotation_of(event.record) == expected


def start_pair(world: NetworkWorld, transport: OtherTransport, **settings: Any) -> None:
    add_node(transport, "a", **settings)
    add_node(transport, "b", join=["a"])
    world.run(4.0)


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_replicas_have_annotations(seed: int, far: bool) -> None:
    with NetworkWorld(seed) as world:
        transport = AnnotatingTransport(world)
        add_node(transport, "a", settings=GUARDED)
        add_node(transport, "keeper", join=["a"])
        if far:
            add_node(transport, "zone", "far", gateways=["keeper"])
        else:
            add_node(transport, "zone", join=["keeper"])
        world.run(4.0)
        reader = Reader(world, world.client("reader", "zone"))
        publisher = Publisher(world.client("publisher", "a"))
        world.run_until(lambda: reader.is_flowing)
        publish(world, publisher, 4)
        read(world, reader, seconds=2.0)
        world.cut("keeper", "zone", refuse=True)
        world.cut("a", "zone", refuse=True)
        transport.loses = lambda _: True
        publish(world, publisher, 20)
        world.kill("a")
        world.lose_disk("a")
        world.heal("keeper", "zone")
        # A page with some events of a log proves nothing to another cluster: recovery reads them.
        world.run(120.0 if far else 30.0)
        read(world, reader)
        assert sorted(numbers(reader)) == list(range(1, 49)) and reader.gaps == []
        assert not world.network_of("zone").signatures.rejected
        check_annotations(logged(world, "zone"))
        assert len({*transport.recovered_annotations}) == 20
        assert all(found == own(mark) for mark, found in transport.recovered_annotations)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_archive_has_annotations(seed: int) -> None:
    with NetworkWorld(seed, archived=True) as world:
        transport = AnnotatingTransport(world)
        start_pair(world, transport)
        publisher = Publisher(world.client("publisher", "a"))
        reader = Reader(world, world.client("reader", "b"))
        world.run_until(lambda: reader.is_flowing)
        publish(world, publisher, 4)
        read(world, reader, seconds=3.0)
        world.cut("a", "b", refuse=True)
        transport.loses = lambda _: True
        publish(world, publisher, 20)
        world.run(5.0)
        world.kill("a")
        read(world, reader, seconds=SILENCE)
        assert sorted(numbers(reader)) == list(range(1, 49)) and reader.gaps == []
        check_annotations(logged(world, "b"))
        assert len({*transport.recovered_annotations}) == 20
        assert all(found == own(mark) for mark, found in transport.recovered_annotations)


@pytest.mark.parametrize("where", [0.3, 0.97])
@pytest.mark.parametrize("source", ["replica", "subscriber", "annotating subscriber", "archive"])
def test_repaired_events_have_their_annotations(source: str, where: float) -> None:
    settings = GUARDED if source == "replica" else Settings()
    with NetworkWorld(3, archived=source == "archive") as world:
        transport = AnnotatingTransport(world)
        if source == "annotating subscriber":
            transport.annotate_received = received_annotation
        start_pair(world, transport, settings=settings)
        readers = (
            [Reader(world, world.client("reader", "b"))] if source.endswith("subscriber") else []
        )
        world.run_until(lambda: all(reader.is_flowing for reader in readers))
        publisher = Publisher(world.client("publisher", "a"))
        world.run(1.0)
        for _ in range(10):
            publish(world, publisher, 1)
        read(world, *readers, seconds=5.0)
        damage(world, "a", where)
        reader = Reader(world, world.client("late", "a"), start=ALL)
        world.run_until(lambda: reader.is_flowing)
        read(world, reader, seconds=60.0)
        repairs = world["a"].event_log.repairs
        assert repairs.counts["repaired"] == repairs.counts["found"] > 0
        assert sorted(numbers(reader)) == list(range(1, 21)) and reader.gaps == []
        check_annotations(logged(world, "a"))


@pytest.mark.parametrize("archived", [False, True])
def test_restored_events_have_their_annotations(archived: bool) -> None:
    with NetworkWorld(1, archived=archived) as world:
        transport = AnnotatingTransport(world)
        start_pair(world, transport)
        reader = Reader(world, world.client("reader", "b"))
        world.run_until(lambda: reader.is_flowing)
        publisher = Publisher(world.client("publisher", "a"))
        publish(world, publisher, 5)
        read(world, reader)
        copy = world.copy_disk("a")
        world.run(5.0)
        publish(world, publisher, 5)
        before = {event.document: split_record(event.record)[:2] for event in logged(world, "a")}
        read(world, reader, seconds=5.0)
        world.kill("a")
        if archived:
            world.kill("b")
            world.lose_disk("b")
        world.restore_disk("a", copy)
        world.start("a")
        world.run(40.0)
        # They are signed again, at their new places.
        after = logged(world, "a")
        assert {event.document: split_record(event.record)[:2] for event in after} == before
        assert not list(find_forged(world["a"].event_log.origin, after, must_sign=True))


@pytest.mark.parametrize("seed", SEEDS)
def test_nodes_of_earlier_versions_get_records_without_annotations(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with NetworkWorld(seed) as world:
        transport = AnnotatingTransport(world)
        add_node(transport, "a", settings=GUARDED)
        with monkeypatch.context() as patch:
            patch.setattr("broker.cluster.network_factory.PROTOCOL_VERSIONS", (1, 2))
            add_node(transport, "old", join=["a"])
        world.run(4.0)
        publisher = Publisher(world.client("publisher", "a"))
        publish(world, publisher, 10)
        world.run(2.0)
        check_annotations(logged(world, "a"))
        origin = world["a"].event_log.origin
        held = world.wait(world["old"].event_log.read_replica(origin, (0, 0), 999, 1 << 30))
        assert len(held) == 20
        assert {len(msgpack.unpackb(event.record)) for event in held} == {9}


@pytest.mark.parametrize("wrong", ["raises", "too long", "no bytes"])
def test_wrong_annotations_stop_the_transport(wrong: str) -> None:
    """Its events are committed without annotations, and come from the log."""

    def annotate(event: CarriedEvent) -> Any:
        if wrong == "raises":
            raise RuntimeError("no number left")
        return bytes(MAX_ANNOTATION_BYTES + 1) if wrong == "too long" else None

    with NetworkWorld(1) as world:
        transport = AnnotatingTransport(world)
        transport.annotate = annotate
        start_pair(world, transport)
        reader = Reader(world, world.client("reader", "b"))
        world.run_until(lambda: reader.is_flowing)
        publish(world, Publisher(world.client("publisher", "a")), 5)
        read(world, reader, seconds=10.0)
        assert sorted(numbers(reader)) == list(range(1, 11)) and reader.gaps == []
        assert all(annotation_of(event.record) == b"" for event in logged(world, "a"))
        error = error_of(world, "a")
        assert ("no number left" if wrong == "raises" else "at most 1024 bytes") in error
        assert flows_of(world, "a")[1] in {event.place.origin for event in reader.events}
