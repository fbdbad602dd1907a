from __future__ import annotations

import struct

import pytest

from broker.cluster.address import Address
from broker.cluster.replicas.messages import REPLICA_EVENTS, ReplicaRequest
from broker.cluster.traffic.frame import MAX_HOPS
from broker.cluster.traffic.frame_range import Range
from broker.cluster.traffic.messages import ReplicaAck
from broker.testing.simulated_publisher import Publisher
from tests.simulation.network.bad_peer import BadPeer
from tests.simulation.network.test_bad_peers import (
    ALICE,
    check_delivery,
    frame,
    to_alice,
    two_nodes,
)
from tests.simulation.network.test_replicas import publish, three_nodes

FRAMES = {
    "an epoch of 33 bits": frame(to_alice((1, 0), (1 << 32, 1))),
    "an epoch of 62 bits": frame(to_alice((1, 0), (1 << 62, 1))),
    "an offset of 65 bits": frame(Range(ALICE, (1, 0), (1, (1 << 64) - 1))),
    "a long origin": frame(to_alice(), origin="\U0001f600" * 64),
    "an origin with a NUL": frame(to_alice(), origin="a\0b"),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_invalid_frame_does_not_break_the_log(kind: str) -> None:
    world, publisher, reader = two_nodes()
    with world:
        peer = BadPeer(world, "a")
        peer.send(FRAMES[kind].encode())
        world.run(1.0)
        log = world["a"].event_log
        assert log.failures == 0
        check_delivery(world, publisher, reader)


def test_frame_of_the_own_origin_is_ignored() -> None:
    world, publisher, reader = two_nodes()
    with world:
        check_delivery(world, publisher, reader)
        log = world["a"].event_log
        before = log.coverage[log.origin]
        peer = BadPeer(world, "a")
        peer.send(frame(to_alice((1, 0), (9, 1_000_000)), origin=log.origin).encode())
        world.run(1.0)
        assert log.coverage[log.origin] == before
        check_delivery(world, publisher, reader)


def test_unavailable_range_beyond_the_known_events_ends_the_link() -> None:
    world, publisher, reader = two_nodes()
    with world:
        peer = BadPeer(world, "a")
        gone_range = Range(ALICE, (1, 0), (1, 1), unavailable_upto=(1 << 31, 5))
        peer.send(frame(gone_range).encode())
        world.run(1.0)
        log = world["a"].event_log
        assert not [m for o, m in log.begins_after.items() if m > log.coverage[o]]
        assert not peer.is_connected


@pytest.mark.parametrize("origin", ["x" * 600, "", "a\0b"])
def test_replica_request_for_an_invalid_origin_is_ignored(origin: str) -> None:
    world, publisher, reader = two_nodes()
    with world:
        peer = BadPeer(world, "a")
        peer.send(ReplicaRequest(origin), struct.pack(">BIQIQ", REPLICA_EVENTS, 1, 0, 1, 5))
        world.run(1.0)
        log = world["a"].event_log
        assert log.failures == 0
        assert set(log.replica_spans) == set()
        check_delivery(world, publisher, reader)


def test_peer_can_not_replace_the_replica_of_another_node() -> None:
    with three_nodes(1) as world:
        publisher = Publisher(world.client("publisher", "owner"))
        world.run(2.0)
        publish(world, publisher, 20)
        world.run(2.0)
        origin = world["owner"].event_log.origin
        span = world["keeper"].event_log.replica_spans[origin]
        peer = BadPeer(world, "keeper")
        assert peer.is_connected
        peer.send(ReplicaRequest(origin), struct.pack(">BIQIQ", REPLICA_EVENTS, 9, 0, 9, 5))
        world.run(2.0)
        assert world["keeper"].event_log.replica_spans[origin] == span


def test_replica_acknowledgement_of_another_node_is_ignored() -> None:
    with three_nodes(1) as world:
        publisher = Publisher(world.client("publisher", "owner"))
        world.run(2.0)
        publisher.publish()
        world.run(2.0)
        assert len(publisher.receipts) == 1
        peer = BadPeer(world, "owner")
        assert peer.is_connected
        world.delay("owner", "keeper", 3.0)
        publisher.publish()
        world.run(0.5)
        log = world["owner"].event_log
        upto = log.coverage[log.origin]
        fields = ReplicaAck(
            Address(("c",), "owner"), Address(("c",), "keeper"), MAX_HOPS, log.origin, upto
        )
        peer.send(fields)
        world.run(1.0)
        assert world["keeper"].event_log.replica_spans[log.origin].upto < upto
        assert len(publisher.receipts) == 1


def test_invented_origins_are_bounded() -> None:
    world, publisher, reader = two_nodes()
    with world:
        peer = BadPeer(world, "a")
        for number in range(20_000):
            peer.send(frame(to_alice(), origin=f"{number:016x}").encode())
            if number % 200 == 0:
                world.run(0.05)
        world.run(5.0)
        assert len(list(world["a"].event_log.coverage)) < 17_000
        check_delivery(world, publisher, reader)
