"""A node forwards only what the origins of other clusters have signed (issue 23, section 3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import pytest

from broker.cluster.address import Address
from broker.cluster.replicas.page_frame import make_page_frame
from broker.cluster.traffic.frame import Frame
from broker.cluster.traffic.frame_range import Range
from broker.config.network import NetworkSettings
from broker.event.origin import is_signed_origin
from broker.event.placeholder import make_placeholder
from broker.event.record import proof_of, with_proof
from broker.log.event_log import EventLog
from broker.log.logged_event import LoggedEvent
from broker.streams.contract import CarriedEvent
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, read
from tests.simulation.network.bad_peer import BadPeer
from tests.simulation.network.other_transport import OtherTransport
from tests.simulation.network.test_bad_peers import ONE, check_delivery, frame, two_nodes
from tests.simulation.network.test_flow_recovery import add_node, numbers
from tests.simulation.network.test_flow_recovery import publish as publish_carried
from tests.simulation.network.test_flows import PATTERN
from tests.simulation.network.test_replicas import publish, three_nodes


def logged(world: NetworkWorld, node: str) -> list[LoggedEvent]:
    events: list[LoggedEvent] = world.wait(world[node].event_log.read(1, 9_999, 1 << 30))
    return events


def carry(event: LoggedEvent, epoch: int, offset: int) -> CarriedEvent:
    return CarriedEvent((epoch, offset), event.record, event.document, event.level)


def frame_of(origin: str, event: CarriedEvent, *destinations: Address) -> Frame:
    epoch, offset = event.mark
    ranges = [Range(each, (epoch, offset - 1), event.mark) for each in destinations]
    return frame(
        *ranges,
        origin=origin,
        level_runs=[(event.level, 1)],
        mark_runs=[(epoch, offset, 1)],
        recipient_runs=[(1, tuple(range(len(ranges))))],
        record_lengths=[len(event.record)],
        document_lengths=[len(event.document)],
        records=event.record,
        body=event.document,
    )


FORGERIES: dict[str, Callable[[CarriedEvent, CarriedEvent], CarriedEvent]] = {
    "another document": lambda event, _: event._replace(
        document=event.document.replace(b"flight", b"flught")
    ),
    "another place": lambda event, _: event._replace(mark=(event.mark[0], event.mark[1] + 1)),
    "no signature": lambda event, _: event._replace(record=with_proof(event.record, b"")),
    "another event's proof": lambda event, other: event._replace(
        record=with_proof(event.record, proof_of(other.record))
    ),
    "a placeholder of another document": lambda event, _: event._replace(
        document=make_placeholder("not-valid", b"<d/>")
    ),
    "a placeholder without a hash": lambda event, _: event._replace(
        document=b"<?xmlbroker-refused not-valid?>"
    ),
    "a placeholder in another stream": lambda event, _: event._replace(
        document=make_placeholder("not-valid", event.document),
        record=event.record.replace(b"asdi.", b"asdj."),
    ),
    "a placeholder without a proof": lambda event, _: event._replace(
        document=make_placeholder("not-valid", event.document), record=with_proof(event.record, b"")
    ),
    "a proof of nothing": lambda event, _: event._replace(
        record=with_proof(event.record, b"\x01" + bytes(150))
    ),
}


@pytest.mark.parametrize("destination", [Address(ONE, "a"), Address(ONE, "")])
@pytest.mark.parametrize("kind", FORGERIES)
def test_a_member_of_another_cluster_can_not_forge_events_of_an_origin(
    kind: str, destination: Address
) -> None:
    world, publisher, reader = two_nodes()
    with world:
        check_delivery(world, publisher, reader)
        origin = world["a"].event_log.origin
        assert is_signed_origin(origin)
        one, other, *_ = [
            carry(each, each.epoch, each.offset)
            for each in logged(world, "a")
            if each.origin == origin
        ]
        forged = FORGERIES[kind](one, other)
        world.add("c", "two", gateways=["b"])
        third = Reader(world, world.client("third", "c"))
        world.run(3.0)
        peer = BadPeer(world, "c")
        # A place that the victim does not have yet.
        peer.send(frame_of(origin, forged, Address(("two",), "c"), destination).encode())
        world.run(1.0)
        network = world.network_of("c")
        assert network.signatures.rejected == {"mallory": 1}
        assert peer.is_connected, "the peer may have forwarded it"
        before = len(third.events)
        check_delivery(world, publisher, reader)
        read(world, third, seconds=3.0)
        assert len(third.events) == before + 5 and third.gaps == []
        assert not [e for e in third.events if e.document == forged.document]


def test_the_signed_event_itself_is_accepted_from_anyone() -> None:
    world, publisher, reader = two_nodes()
    with world:
        check_delivery(world, publisher, reader)
        origin = world["a"].event_log.origin
        event = next(each for each in logged(world, "a") if each.origin == origin)
        world.add("c", "two", gateways=["b"])
        world.run(3.0)
        peer = BadPeer(world, "c")
        carried = carry(event, event.epoch, event.offset)
        peer.send(frame_of(origin, carried, Address(("two",), "c")).encode())
        world.run(1.0)
        assert not world.network_of("c").signatures.rejected
        # A log that began without signatures.
        peer.send(frame_of("0123456789abcdef", carried, Address(("two",), "c")).encode())
        world.run(1.0)
        assert not world.network_of("c").signatures.rejected


def test_unsigned_logs_are_rejected_where_signatures_are_required() -> None:
    with NetworkWorld(1) as world:
        world.add("a", "one", require_signatures=True)
        world.run(3.0)
        publisher = Publisher(world.client("publisher", "a"))
        publisher.publish()
        world.run(2.0)
        event = logged(world, "a")[0]
        peer = BadPeer(world, "a")
        carried = carry(event, 1, 1)
        peer.send(frame_of("0123456789abcdef", carried, Address(ONE, "a")).encode())
        world.run(1.0)
        assert world.network_of("a").signatures.rejected == {"mallory": 1}
        assert len(logged(world, "a")) == 1


def test_the_own_cluster_is_checked_by_setting() -> None:
    with NetworkWorld(1) as world:
        world.add("a", "one", verify="always")
        world.add("b", "one", join=["a"], verify="always")
        world.run(3.0)
        publisher = Publisher(world.client("publisher", "b"))
        reader = Reader(world, world.client("reader", "a"))
        world.run(2.0)
        publisher.publish()
        read(world, reader, seconds=2.0)
        assert len(reader.events) == 1
        event = next(each for each in logged(world, "b"))
        peer = BadPeer(world, "a", "one")
        forged = carry(event, event.epoch, event.offset + 1)
        peer.send(frame_of(event.origin, forged, Address(ONE, "a")).encode())
        publisher.publish()
        read(world, reader, seconds=3.0)
        assert len(reader.events) == 2 and reader.gaps == []
        assert world.network_of("a").signatures.rejected == {"mallory": 1}


@pytest.mark.parametrize(
    ("verify", "rejected"), [("edge", {"c": {"b": 1}}), ("always", {"b": {"mallory": 1}})]
)
def test_a_frame_that_passes_a_cluster_is_checked_at_its_destination(
    verify: str, rejected: dict[str, dict[str, int]]
) -> None:
    with NetworkWorld(1) as world:
        world.add("a", "one", verify=verify)
        world.add("b", "two", gateways=["a"], verify=verify)
        world.add("c", "three", gateways=["b"], verify=verify)
        world.run(6.0)
        publisher = Publisher(world.client("publisher", "a"))
        reader = Reader(world, world.client("reader", "c"))
        world.run(3.0)
        publisher.publish()
        read(world, reader, seconds=3.0)
        assert len(reader.events) == 1
        event = logged(world, "a")[0]
        forged = carry(event, event.epoch, event.offset + 1)
        BadPeer(world, "b").send(frame_of(event.origin, forged, Address(("three",), "")).encode())
        world.run(1.0)
        found = {name: dict(world.network_of(name).signatures.rejected) for name in "abc"}
        assert {name: counts for name, counts in found.items() if counts} == rejected
        publisher.publish()
        read(world, reader, seconds=3.0)
        assert len(reader.events) == 2 and reader.gaps == []


def test_a_replica_can_not_change_the_events_of_a_dead_origin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forged: list[LoggedEvent] = []

    def forge(origin: str, node: Address, ranges: list[Range], events: Sequence[Any]) -> Frame:
        changed = [
            attrs.evolve(each, document=each.document.replace(b"<id>F<", b"<id>X<"))
            for each in events
        ]
        forged.extend(changed)
        return make_page_frame(origin, node, ranges, changed)

    with three_nodes(1) as world:
        publisher = Publisher(world.client("publisher", "owner"))
        reader = Reader(world, world.client("reader", "zone"))
        world.run_until(lambda: reader.is_flowing)
        publish(world, publisher, 5)
        read(world, reader)
        assert len(reader.events) == 5
        world.cut("keeper", "zone", refuse=True)
        publish(world, publisher, 5)
        world.run(3.0)
        world.kill("owner")
        world.lose_disk("owner")
        monkeypatch.setattr("broker.cluster.replicas.service.make_page_frame", forge)
        world.heal("keeper", "zone")
        read(world, reader, seconds=30.0)
        assert forged, "a page was requested"
        assert len(reader.events) == 5
        assert world.network_of("zone").signatures.rejected.keys() == {"keeper"}
        # The replica is honest again.
        monkeypatch.undo()
        read(world, reader, seconds=60.0)
        assert len(reader.events) == 10 and reader.gaps == []


@pytest.mark.parametrize("checks_inside", [False, True])
def test_a_transport_can_not_change_events(checks_inside: bool) -> None:
    with NetworkWorld(1) as world:
        transport = OtherTransport(world, delay=0.1)
        add_node(transport, "a")
        if checks_inside:
            add_node(transport, "b", join=["a"], verify="always")
        else:
            add_node(transport, "b", "far", gateways=["a"])
        world.run(4.0)
        reader = Reader(world, world.client("reader", "b"))
        publisher = Publisher(world.client("publisher", "a"))
        world.run_until(lambda: reader.is_flowing)
        publish_carried(world, publisher, 3)
        read(world, reader, seconds=2.0)
        assert not world.network_of("b").signatures.rejected
        transport.forge = lambda event: event._replace(
            document=event.document.replace(b"<id>F<", b"<id>X<")
        )
        publish_carried(world, publisher, 5)
        read(world, reader, seconds=30.0)
        # Pages of the log bring them.
        assert sorted(numbers(reader)) == list(range(1, 17)) and reader.gaps == []
        assert not [each for each in reader.events if b"<id>X<" in each.document]
        rejected = world.network_of("b").signatures.rejected
        assert rejected.keys() == {f"the transport of {PATTERN}"}


def test_later_events_of_a_revoked_log_are_rejected() -> None:
    world, publisher, reader = two_nodes()
    with world:
        check_delivery(world, publisher, reader)
        origin = world["a"].event_log.origin
        last = [each for each in logged(world, "a") if each.origin == origin][-1]
        world.add("c", "two", gateways=["b"], revoked_logs=(last.place,))
        third = Reader(world, world.client("third", "c"))
        world.run(3.0)
        publisher.publish()
        read(world, reader, seconds=3.0)
        read(world, third, seconds=3.0)
        assert third.events == [] and len(reader.events) == 6
        assert set(world.network_of("c").signatures.rejected) == {"b"}


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_logs_without_signatures_take_new_names_and_lose_nothing(
    order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network whose logs began unsigned is restarted twice, node by node."""
    with NetworkWorld(1) as world:
        with monkeypatch.context() as earlier:
            earlier.setattr("broker.node.log_opening.load_node_key", lambda _: None)
            world.add("a", "one")
            world.add("b", "two", gateways=["a"])
        world.run(4.0)
        names = {name: world[name].event_log.origin for name in "ab"}
        publisher = Publisher(world.client("publisher", "a"))
        reader = Reader(world, world.client("reader", "b"), durable="d")
        world.run_until(lambda: reader.is_flowing)
        publish(world, publisher, 5)
        read(world, reader)
        for is_strict in (False, True):
            for name in order:
                world.stop(name)
                publish(world, publisher, 2)
                process = world._processes[name]
                network = attrs.evolve(
                    process.settings.network, sign_earlier_log=True, require_signatures=is_strict
                )
                process.settings = attrs.evolve(process.settings, network=network)
                world.start(name)
                read(world, reader, seconds=10.0)
                publish(world, publisher, 3)
                read(world, reader, seconds=20.0)
        assert all(is_signed_origin(world[name].event_log.origin) for name in "ab")
        assert names["a"] != world["a"].event_log.origin
        read(world, reader, seconds=60.0)
        world.run_until(lambda: not publisher.client.unacknowledged)
        read(world, reader, seconds=20.0)
        found = sorted(each.event_id.sequence_number for each in reader.events)
        assert found == list(range(1, publisher.published + 1))
        assert reader.gaps == []


def are_signed(world: NetworkWorld, log: EventLog) -> list[bool]:
    return [bool(proof_of(each.record)) for each in world.wait(log.read(1, 99, 1 << 20))]


def test_a_node_signs_events_from_before_it_joined_a_network() -> None:
    with NetworkWorld(1) as world:
        world.add("a", "one", start=False)
        process = world._processes["a"]
        joined = process.settings
        process.settings = attrs.evolve(joined, network=NetworkSettings())
        world.start("a")
        reader = Reader(world, world.client("rover", "a"), durable="d")
        world.run_until(lambda: reader.is_flowing)
        world.kill_client(reader.client)
        publisher = Publisher(world.client("p", "a"))
        for _ in range(3):
            publisher.publish()
        world.run(2.0)
        assert are_signed(world, world["a"].event_log) == [False] * 3
        world.stop("a")
        process.settings = joined
        world.start("a")
        world.add("b", "one", join=["a"])
        world.run(5.0)
        publisher.publish()
        moved = Reader(world, world.client("rover", "b", incarnation=2), durable="d")
        read(world, moved, seconds=30.0)
        numbers_read = [each.event_id.sequence_number for each in moved.events]
        assert numbers_read == [1, 2, 3, 4] and moved.gaps == []
        assert are_signed(world, world["a"].event_log) == [False] * 3 + [True]
        assert not world.network_of("b").signatures.rejected
