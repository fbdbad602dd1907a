"""The link of a node that misbehaves after the handshake ends; others go on (T44)."""

from __future__ import annotations

import struct
from collections.abc import Callable

import msgpack
import pytest

from broker.cluster import messages
from broker.cluster.address import Address
from broker.cluster.handshake_messages import LINKS, NodeProof
from broker.cluster.messages import Refresh, Update
from broker.cluster.traffic.frame import MAX_HOPS, Frame
from broker.cluster.traffic.frame_range import Range
from broker.cluster.traffic.messages import DtdAnswer, DtdRequest, PageRequest
from broker.event.place import Mark
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, read
from broker.wire.messages import NO_ERROR
from tests.simulation.network.bad_peer import BadPeer

ONE = ("one",)
ALICE = Address(ONE, "a")
BOB = Address(ONE, "b")


def two_nodes(seed: int = 1) -> tuple[NetworkWorld, Publisher, Reader]:
    world = NetworkWorld(seed)
    world.add("a", "one")
    world.add("b", "one", join=["a"])
    world.run(3.0)
    publisher = Publisher(world.client("publisher", "a"))
    reader = Reader(world, world.client("reader", "b"))
    world.run(2.0)
    return world, publisher, reader


def check_delivery(world: NetworkWorld, publisher: Publisher, reader: Reader) -> None:
    before = len(reader.events)
    for _ in range(5):
        publisher.publish()
    read(world, reader, seconds=3.0)
    assert len(reader.events) == before + 5
    assert world.are_linked("a", "b")
    assert [
        each.reconnections for each in world.network_of("a").neighbours if each.name == "b"
    ] == [0]


def frame(*ranges: Range, origin: str = "0123456789abcdef", **overrides: object) -> Frame:
    fields: dict[str, object] = {
        "origin": origin,
        "origin_node": Address(("evil",), "mallory"),
        "level_runs": [],
        "hops": MAX_HOPS,
        "ranges": ranges,
        "mark_runs": [],
        "recipient_runs": [],
        "encoding": 0,
        "record_lengths": [],
        "document_lengths": [],
        "records": b"",
        "body": b"",
    }
    return Frame(**{**fields, **overrides})  # type: ignore[arg-type]


def to_alice(after: Mark = (1, 0), upto: Mark = (1, 1)) -> Range:
    return Range(ALICE, after, upto)


def absurd(lengths: tuple[int, int]) -> bytes:
    return struct.pack(">BII", 0x60, *lengths) + b"x" * 20


LINK_ENDING: dict[str, Callable[[], bytes | messages.Message]] = {
    "garbage": lambda: b"\xc1\xff\x00garbage",
    "an unknown kind": lambda: b"\x3f" + msgpack.packb((1,)),
    "a frame of nothing": lambda: b"\x60",
    "absurd lengths": lambda: absurd((1 << 31, 1 << 31)),
    "no header": lambda: absurd((4, 4)),
    "a range backwards": lambda: frame(Range(ALICE, (1, 5), (1, 2))).encode(),
    "more hops than there are": lambda: frame(to_alice(), hops=1000).encode(),
    "events that are not there": lambda: frame(
        to_alice(), record_lengths=[5], document_lengths=[1 << 40]
    ).encode(),
    "a greeting": lambda: NodeProof(b""),
    "tables of a scope that is not his": lambda: Refresh("mallory", ("evil",), ONE, 1, 1, 1, 0),
    "an update without an end": lambda: Update("mallory", ("evil",), ONE, 1, 0, 1, 0, (), False),
    "a kept event that nobody asked for": lambda: b"\x80\x00\x00",
}


@pytest.mark.parametrize("kind", LINK_ENDING)
def test_invalid_message_ends_only_the_link_of_its_sender(kind: str) -> None:
    world, publisher, reader = two_nodes()
    with world:
        peer = BadPeer(world, "a")
        assert peer.is_connected
        peer.send(LINK_ENDING[kind]())
        check_delivery(world, publisher, reader)
        assert not peer.is_connected
        neighbours = world.network_of("a").neighbours
        assert neighbours.get("mallory") is None
        assert neighbours.broken_links == {"protocol": 1}


HARMLESS: dict[str, Callable[[], bytes | messages.Message]] = {
    "to nobody": lambda: frame(Range(Address(("nowhere",), "x"), (1, 0), (1, 1))).encode(),
    "an origin that is not here": lambda: PageRequest(
        ALICE, Address(("evil",), "mallory"), MAX_HOPS, "f" * 16, (1, 0)
    ),
    "no such type": lambda: DtdRequest(ALICE, Address(("evil",), "mallory"), MAX_HOPS, "x", "1"),
    "an answer without a question": lambda: DtdAnswer(
        ALICE, Address(("evil",), "mallory"), MAX_HOPS, "x", "1", NO_ERROR, b"<!ELEMENT x ANY>"
    ),
    "a range without events": lambda: frame(to_alice()).encode(),
    "a range of the own origin": lambda: frame(to_alice(), origin="own").encode(),
    "a body that is no body": lambda: frame(
        to_alice(),
        level_runs=[(0, 1)],
        mark_runs=[(1, 1, 1)],
        recipient_runs=[(1, (0,))],
        encoding=1,
        record_lengths=[1],
        document_lengths=[10],
        records=b"x",
        body=b"no zstd",
    ).encode(),
}


@pytest.mark.parametrize("kind", HARMLESS)
def test_message_that_a_peer_may_have_forwarded_is_ignored(kind: str) -> None:
    world, publisher, reader = two_nodes()
    with world:
        peer = BadPeer(world, "a")
        for _ in range(3):
            peer.send(HARMLESS[kind]())
            world.run(1.0)
        # The peer may have forwarded the message of another node.
        assert peer.is_connected
        check_delivery(world, publisher, reader)
        world.run(60.0)
        check_delivery(world, publisher, reader)
        world.check_outcomes()


def test_peer_with_a_false_address_is_refused() -> None:
    world, publisher, reader = two_nodes()
    with world:
        assert BadPeer(world, "a", cluster="one", name="b").refused is not None
        assert BadPeer(world, "a", cluster="one.inside", name="deep").refused is not None
        check_delivery(world, publisher, reader)


def test_peer_that_stops_reading_fills_only_its_own_link() -> None:
    world, publisher, reader = two_nodes()
    with world:
        peer = BadPeer(world, "a")
        assert peer.is_connected
        peer.channel.pause()
        for _ in range(40):
            publisher.publish(size=200_000)
            read(world, reader, seconds=0.2)
        check_delivery(world, publisher, reader)
        assert len(reader.events) == 45


def test_flood_of_connections_does_not_keep_members_out() -> None:
    world, publisher, reader = two_nodes()
    with world:
        for number in range(150):
            world.connect("a", f"s{number}")
        check_delivery(world, publisher, reader)
        world.run(30.0)
        world.add("c", join=["a"])
        world.run(20.0)
        assert world.are_linked("a", "c")
        assert world.network_of("a").membership.failed_handshakes
        check_delivery(world, publisher, reader)


def test_link_of_a_transport_is_refused_at_a_port_for_nodes() -> None:
    world, publisher, reader = two_nodes()
    with world:
        peer = BadPeer(world, "a", purpose=f"{LINKS}radar tested 1 mspaces 1")
        assert peer.refused is not None
        assert peer.refused.error.code == "stack-mismatch"
        assert "is one of network.listen, and has no links of radar" in str(peer.refused.error)
        check_delivery(world, publisher, reader)
