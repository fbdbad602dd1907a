"""Connections of strangers, and of nodes that claim too much, to the links of a transport."""

from __future__ import annotations

from random import Random

import attrs
import pytest

from broker.cluster import messages
from broker.cluster.acceptor import MOST_HANDSHAKES, MOST_LINK_HANDSHAKES_PER_HOST
from broker.cluster.address import Address
from broker.cluster.admission import AdmissionContext
from broker.cluster.descriptor import Endpoint, NodeDescriptor
from broker.cluster.handshake_core import HANDSHAKE_TIMEOUT
from broker.cluster.handshake_messages import (
    GATEWAY,
    LINKS,
    MAGIC,
    MEMBER,
    NONCE_BYTES,
    PROTOCOL_VERSIONS,
    NodeChallenge,
    NodeHello,
    NodeRefuse,
    NodeWelcome,
)
from broker.errors import from_wire
from broker.streams.connection_links import ConnectionLinks
from broker.testing.memory_connections import link_place
from broker.testing.socket_contract import RecordingReceiver
from broker.transport.pending_connections import KNOWN_SHARE
from broker.transport.socket import ISocketChannel
from tests.streams.link_ends import PORT, End, Wire, check_traffic

NAME = "radar tested 1 mspaces 1"
KEY = b"the key of all nodes"


@attrs.define
class Pair:
    """Two linked nodes; "a" has added "b". Strangers connect to "b"."""

    key: bytes | None = None
    wire: Wire = attrs.field(factory=Wire)
    ends: list[End] = attrs.field(init=False)
    links: list[ConnectionLinks] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.ends = [End(self.wire, name, key=self.key) for name in "ab"]
        self.links = [end.open() for end in self.ends]
        self.links[0].add_peer(self.ends[1].address)
        self.wire.run(3.0)

    def connect(self, host: str = "10.0.0.77") -> Stranger:
        address = link_place(self.ends[1].address)
        connecting = self.wire.network.connect(address, f"{host}:1")
        found: list[ISocketChannel] = []
        connecting.addCallback(found.append)
        self.wire.run(0.01)
        return Stranger(self.wire, found[0])

    def check(self) -> None:
        check_traffic(self.wire, self.ends, self.links)
        assert self.wire.connections(self.ends) == 1

    def refused(self) -> dict[str, int]:
        refused = self.links[1].snapshot()["refused"]
        assert isinstance(refused, dict)
        return refused


class Stranger:
    def __init__(self, wire: Wire, channel: ISocketChannel) -> None:
        self.wire = wire
        self.channel = channel
        self.receiver = RecordingReceiver(channel)

    @property
    def is_closed(self) -> bool:
        return bool(self.receiver.losses)

    def say(self, *packets: bytes | messages.Message) -> list[messages.Message]:
        """Send packets, and return the answers."""
        before = len(self.receiver.packets)
        self.channel.send([p if isinstance(p, bytes) else messages.encode(p) for p in packets])
        self.wire.run(0.1)
        answers = self.receiver.packets[before:]
        # Packets of the link follow a welcome.
        return [messages.decode(each) for each in answers if each[0] >= NodeHello.kind]


def hello(
    name: str = "stranger",
    *,
    purpose: str = LINKS + NAME,
    network: str = "net",
    versions: tuple[int, ...] = PROTOCOL_VERSIONS,
    origin: str = "f" * 16,
    incarnation: int = 1,
    port: int = PORT,
) -> NodeHello:
    node = NodeDescriptor(
        Address((), name), origin, incarnation, versions, Endpoint("anywhere", port)
    )
    return NodeHello(MAGIC, versions, network, node, purpose, (), bytes(NONCE_BYTES))


def test_a_node_with_the_stack_is_welcome() -> None:
    pair = Pair()
    (answer,) = pair.connect().say(hello())
    assert isinstance(answer, NodeWelcome) and answer.members == ()


@pytest.mark.parametrize(
    ("wrong", "code", "text"),
    [
        (
            hello(purpose=f"{LINKS}boats tested 1 mspaces 1"),
            "stack-mismatch",
            f"this address has links of {NAME}, not links of boats tested 1 mspaces 1",
        ),
        (
            hello(purpose=f"{LINKS}radar tested 2 mspaces 1"),
            "stack-mismatch",
            f"this address has links of {NAME}, not links of radar tested 2 mspaces 1",
        ),
        (hello(purpose=MEMBER), "stack-mismatch", f"this address has links of {NAME}, not member"),
        (hello(purpose=GATEWAY), "stack-mismatch", f"this address has links of {NAME}, not"),
        (hello(network="other"), "wrong-network", "different network.name"),
        (hello(versions=(99,)), "version-mismatch", "this node speaks version 1, 2, 3"),
        (hello("b"), "name-taken", "another node has the node.name b"),
        (hello("a"), "name-taken", "another node has the node.name a"),
        (hello("a", origin=f"{ord('a'):016x}", incarnation=0), "incarnation-refused", "later"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_hello_is_refused_with_its_reason(wrong: NodeHello, code: str, text: str) -> None:
    pair = Pair()
    stranger = pair.connect()
    (answer,) = stranger.say(wrong)
    assert isinstance(answer, NodeRefuse)
    error = from_wire(answer.error)
    assert error.code == code
    assert text in error.text
    pair.wire.run(1.0)
    assert stranger.is_closed
    assert pair.refused() == {code: 1}
    pair.check()


def test_the_name_of_a_member_of_the_cluster_is_taken() -> None:
    pair = Pair()
    end = pair.ends[1]
    member = NodeDescriptor(Address(("c",), "m"), "e" * 16, 1, PROTOCOL_VERSIONS)
    end.context = AdmissionContext(end.node, {"b": end.node, "m": member}, {}, {}, ())
    (answer,) = pair.connect().say(hello("m"))
    assert isinstance(answer, NodeRefuse)
    assert from_wire(answer.error).code == "name-taken"
    pair.check()


def test_the_address_of_another_node_is_taken() -> None:
    """A node on the same host names the port of another one."""
    pair = Pair()
    stranger = pair.connect(pair.ends[0].address[0])
    (answer,) = stranger.say(hello())
    assert isinstance(answer, NodeRefuse)
    assert from_wire(answer.error).text == "10.0.0.97:9000 is the address of a"
    pair.check()


def test_an_added_address_belongs_to_the_node_that_answers_there() -> None:
    wire = Wire()
    one, other = End(wire, "a"), End(wire, "b")
    links = [one.open(), other.open()]
    impostor = End(wire, "c")
    # It listens elsewhere on the host of "a", but names its port.
    impostor.address = (one.address[0], PORT + 1)
    from_impostor = impostor.open()
    from_impostor._port.socket.address = one.address  # type: ignore[misc]
    from_impostor.add_peer(other.address)
    wire.run(1.0)
    from_impostor.send([b"forged"], [other.address])
    wire.run(1.0)
    assert other.received == [(one.address, b"forged")]
    links[1].add_peer(one.address)
    wire.run(60.0)
    other.received.clear()
    from_impostor.send([b"forged"], [other.address])
    wire.run(1.0)
    assert other.received == []
    wire.ends.remove(impostor)
    check_traffic(wire, [one, other], links)


def test_a_hello_without_a_listening_address_is_refused() -> None:
    pair = Pair()
    greeting = hello()
    (answer,) = pair.connect().say(
        NodeHello(
            *(MAGIC, PROTOCOL_VERSIONS, "net", greeting.node._replace(tcp=None)),
            *(LINKS + NAME, (), bytes(NONCE_BYTES)),
        )
    )
    assert isinstance(answer, NodeRefuse)
    assert "no listening address" in from_wire(answer.error).text
    pair.check()


@pytest.mark.parametrize("seed", range(5))
def test_garbage_ends_its_own_connection(seed: int) -> None:
    random = Random(seed)
    pair = Pair(KEY)
    genuine = messages.encode(hello())
    for number in range(20):
        stranger = pair.connect(f"10.0.1.{number}")
        for _ in range(3):
            cut = random.randrange(1, len(genuine))
            stranger.channel.send(
                [random.choice((random.randbytes(50), genuine[:cut] + random.randbytes(9)))]
            )
        pair.wire.run(1.0)
        assert stranger.is_closed
    pair.check()


def test_a_long_hello_ends_its_own_connection() -> None:
    pair = Pair()
    stranger = pair.connect()
    stranger.channel.send([bytes(100_000)])
    pair.wire.run(0.1)
    assert stranger.is_closed
    pair.check()


def test_a_stranger_without_the_key_learns_only_the_node() -> None:
    pair = Pair(KEY)
    stranger = pair.connect()
    (challenge,) = stranger.say(hello())
    assert isinstance(challenge, NodeChallenge)
    (answer,) = stranger.say(messages.encode(hello()))
    assert isinstance(answer, NodeRefuse)
    pair.check()


@pytest.mark.parametrize("key", [None, KEY])
def test_half_open_connections_are_bounded_and_end(key: bytes | None) -> None:
    pair = Pair(key)
    strangers = [pair.connect(f"10.0.1.{number}") for number in range(60)]
    pair.wire.run(0.1)
    # The rest is for addresses of accepted nodes.
    most = MOST_HANDSHAKES - MOST_HANDSHAKES // KNOWN_SHARE
    assert sum(not each.is_closed for each in strangers) == most
    pair.check()
    pair.wire.run(HANDSHAKE_TIMEOUT)
    assert all(each.is_closed for each in strangers)
    third = End(pair.wire, "c", key=key)
    third.open().add_peer(pair.ends[1].address)
    pair.wire.run(30.0)
    assert pair.wire.connections() == 2


def test_half_open_connections_of_one_host_leave_room_for_others() -> None:
    pair = Pair(KEY)
    for _ in range(3):
        strangers = [pair.connect() for _ in range(20)]
        pair.wire.run(0.1)
        assert sum(not each.is_closed for each in strangers) <= MOST_LINK_HANDSHAKES_PER_HOST
        # The bound of all handshakes in a second.
        pair.wire.run(3.0)
    third = End(pair.wire, "c", key=KEY)
    third.open().add_peer(pair.ends[1].address)
    pair.wire.run(1.0)
    assert pair.wire.connections([pair.ends[1], third]) == 1


def test_wrong_keys_are_reported_at_both_ends() -> None:
    pair = Pair(KEY)
    other = End(pair.wire, "c", key=b"another key of a node")
    links = other.open()
    links.add_peer(pair.ends[1].address)
    pair.wire.run(1.0)
    assert pair.refused()["authentication-failed"]
    refused = links.snapshot()["refused"]
    assert isinstance(refused, dict) and refused["authentication-failed"]
    assert links.snapshot()["peers"] == [{"address": "10.0.0.98:9000", "node": "", "linked": False}]
    pair.check()


def test_garbage_after_the_handshake_ends_the_link_of_its_sender() -> None:
    pair = Pair()
    stranger = pair.connect()
    stranger.say(hello())
    stranger.channel.send([b"garbage"])
    pair.wire.run(1.0)
    assert stranger.is_closed
    pair.check()


def test_a_node_that_dials_itself_has_no_link() -> None:
    wire = Wire()
    end = End(wire, "a")
    links = end.open()
    links.add_peer(end.address)
    wire.run(10.0)
    assert wire.connections() == 0
    refused = links.snapshot()["refused"]
    assert isinstance(refused, dict) and set(refused) == {"name-taken"}


def test_two_addresses_of_one_node_get_one_link() -> None:
    wire = Wire()
    one, other = End(wire, "a"), End(wire, "b")
    links, _ = one.open(), other.open()
    second = End(wire, "b", host="10.0.1.1")
    second.open()
    links.add_peer(other.address)
    wire.run(1.0)
    links.add_peer(second.address)
    wire.run(10.0)
    assert wire.connections() == 1
