from __future__ import annotations

from collections.abc import Callable, Sequence

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from broker.cluster.neighbours import Neighbour, Neighbours
from broker.errors import BrokerError, Closed, ProtocolError
from broker.queue_memory import HeldBytes, QueueMemory
from broker.testing.memory_network import MemoryNetwork
from broker.transport.layer import ILayer
from broker.transport.multicast import MulticastLayer
from broker.transport.multicast.core import MulticastCore
from broker.transport.p2p import P2PLayer
from broker.transport.socket import TCP_PROPERTIES, ISocketChannel
from broker.transport.stack import Stack
from tests.cluster.sample_nodes import a_node

BUFFER = 20_000
#: Of all queues of a node.
MEMORY = 2 * BUFFER


def stack(name: str, transport: str, incarnation: int, held: HeldBytes | None = None) -> Stack:
    links = P2PLayer(
        incarnation=incarnation,
        send_buffer_bytes=BUFFER,
        window_bytes=BUFFER,
        suspect=1.0,
        held=held,
    )
    layers: list[ILayer] = [links, MulticastLayer()]
    return Stack("test", layers, TCP_PROPERTIES)


class Node:
    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.log: list[tuple[object, ...]] = []
        self.on_messages: Callable[[Sequence[bytes]], None] = lambda batch: None
        self.memory = QueueMemory(MEMORY)
        base = stack(name, "tcp", 1)
        self.neighbours = Neighbours(
            *(name, world.clock, self, base, self.make_stack), max_frame=2**20
        )

    def make_stack(self, name: str, transport: str, incarnation: int) -> Stack:
        return stack(name, transport, incarnation, HeldBytes(self.memory))

    def link_up(self, neighbour: Neighbour) -> None:
        self.log.append(("up", neighbour.name))

    def link_resumed(self, neighbour: Neighbour) -> None:
        self.log.append(("resumed", neighbour.name))

    def link_broken(self, neighbour: Neighbour) -> None:
        self.log.append(("broken", neighbour.name))

    def link_down(self, neighbour: Neighbour, error: BrokerError | None) -> None:
        self.log.append(("down", neighbour.name, None if error is None else error.code))

    def link_failed(self, neighbour: Neighbour) -> None:
        self.log.append(("failed", neighbour.name))

    def messages_received(self, neighbour: Neighbour, batch: Sequence[bytes]) -> None:
        self.log.append((neighbour.name, *batch))
        self.on_messages(batch)


class World:
    """Nodes a, b and c, each with a link to the others."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.network = MemoryNetwork(self.clock, latency=0.01)
        self.nodes = {name: Node(self, name) for name in "abc"}
        for pair in ("ab", "ac", "bc"):
            self.connect(pair)
        self.run(0.5)
        for node in self.nodes.values():
            assert {entry[0] for entry in node.log} == {"up"}
            node.log.clear()

    def attach(self, own: str, peer: str, channel: ISocketChannel) -> bool:
        neighbour = Neighbour(a_node(f"alps/{peer}"), False, False, "tcp", "member", own < peer, "")
        return self.nodes[own].neighbours.attach_connection(neighbour, channel)

    def connect(self, pair: str) -> None:
        one, other = pair[0], pair[1]

        def accept(channel: ISocketChannel) -> None:
            self.attach(other, one, channel)

        port = self.network.listen(pair, accept)
        self.network.connect(pair).addCallback(lambda channel: self.attach(one, other, channel))
        self.run(0.1)
        port.stop_listening()

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds * 100)):
            self.clock.advance(0.01)

    def neighbour(self, own: str, peer: str) -> Neighbour:
        found = self.nodes[own].neighbours.get(peer)
        assert found is not None
        return found


def test_a_droppable_message_reaches_links_that_take_it_and_is_counted() -> None:
    world = World()
    a = world.nodes["a"].neighbours
    assert a.send_droppable(b"12345", ["b", "c"])
    assert not a.send_droppable(b"x", ["b", "stranger"])
    world.run(0.1)
    assert world.nodes["b"].log == [("a", b"12345", b"x")]
    assert world.nodes["c"].log == [("a", b"12345")]
    to_b = world.neighbour("a", "b")
    assert (to_b.sent, to_b.sent_bytes, to_b.full) == (2, 6, 0)
    from_a = world.neighbour("b", "a")
    assert (from_a.received, from_a.received_bytes) == (2, 6)


def test_a_full_link_drops_droppable_messages_and_is_ended_by_a_reliable_one() -> None:
    world = World()
    a = world.nodes["a"].neighbours
    to_b = world.neighbour("a", "b")
    while a.send_droppable(bytes(1000), ["b"]):
        assert to_b.sent < 100
    assert to_b.full == 1
    # Half of the buffer is kept for messages that must not be lost.
    a.send_reliable(b"1", "b")
    world.run(0.001)
    assert world.nodes["a"].log == []
    for _ in range(20):
        a.send_reliable(bytes(1000), "b")
    world.run(0.1)
    assert world.nodes["a"].log == [("down", "b", "overloaded")]
    assert a.get("b") is None
    assert ("a", b"1") not in world.nodes["c"].log
    a.send_reliable(b"no link", "b")


def test_links_beyond_their_part_of_the_memory_of_all_queues_drop_messages_alone() -> None:
    world = World()
    node = world.nodes["a"]
    clients = HeldBytes(node.memory), HeldBytes(node.memory)
    for each in clients:
        each.resize(MEMORY // 4)
    for _ in range(2):
        assert node.neighbours.send_droppable(bytes(MEMORY // 10), ["b"])
    assert not node.neighbours.send_droppable(b"x", ["b"])
    assert node.neighbours.send_droppable(b"small", ["c"])
    # A message that must not be lost is sent all the same.
    node.neighbours.send_reliable(b"kept", "b")
    world.run(0.2)
    sent = bytes(MEMORY // 10)
    assert world.nodes["b"].log == [("a", sent, sent, b"kept")]
    assert world.nodes["c"].log == [("a", b"small")]
    assert node.neighbours.send_droppable(b"y", ["b"])
    for each in clients:
        each.close()
    world.run(0.2)
    assert node.memory.used == 0


def test_a_link_that_is_over_leaves_the_memory_of_all_queues() -> None:
    world = World()
    node = world.nodes["a"]
    world.network.cut("ab")
    world.run(0.5)
    node.neighbours.send_reliable(bytes(1000), "b")
    assert node.memory.used > 1000
    world.run(1.1)
    assert (node.memory.used, node.memory.holders) == (0, 0)


def test_a_broken_link_keeps_messages_until_it_is_given_up() -> None:
    world = World()
    world.network.cut("ab")
    world.run(0.5)
    a = world.nodes["a"]
    assert a.log == [("broken", "b")]
    a.neighbours.send_reliable(b"kept", "b")
    world.connect("ab")
    assert world.nodes["b"].log == [("broken", "a"), ("resumed", "a"), ("a", b"kept")]
    assert world.neighbour("a", "b").reconnections == 1
    world.network.cut("ab")
    world.run(1.1)
    assert a.log[-1] == ("down", "b", "not-connected")
    assert a.neighbours.get("b") is None
    assert a.neighbours.count_links("tcp") == 1


def test_a_malformed_message_ends_its_link_alone() -> None:
    world = World()

    def refuse(batch: Sequence[bytes]) -> None:
        raise ProtocolError("malformed")

    world.nodes["a"].on_messages = refuse
    world.nodes["b"].neighbours.send_reliable(b"bad", "a")
    world.run(0.1)
    assert world.nodes["a"].log == [("b", b"bad"), ("down", "b", "protocol")]
    assert world.nodes["a"].neighbours.broken_links == {"protocol": 1}
    assert [each.name for each in world.nodes["a"].neighbours] == ["c"]


def test_flushing_ends_when_all_links_have_closed() -> None:
    world = World()
    a = world.nodes["a"].neighbours
    a.send_droppable(b"last", ["b", "c"])
    flushed: Deferred[None] = a.flush_all()
    done: list[None] = []
    flushed.addCallback(done.append)
    assert list(a) == [] and done == []
    channels: list[ISocketChannel] = []
    port = world.network.listen("late", lambda channel: None)
    world.network.connect("late").addCallback(channels.append)
    world.clock.advance(0.01)
    port.stop_listening()
    if not done:
        assert not world.attach("a", "b", channels[0])
    world.run(0.1)
    assert done == [None]
    assert world.nodes["b"].log[0] == world.nodes["c"].log[0] == ("a", b"last")
    assert world.nodes["a"].log == []


def test_a_stack_that_has_failed_ends_its_links_and_takes_no_more() -> None:
    world = World()
    a = world.nodes["a"]
    (core,) = a.neighbours.driver.cores
    assert isinstance(core, MulticastCore)
    core._states = None  # type: ignore[assignment]
    a.neighbours.driver._on_error = lambda error: None
    assert not a.neighbours.send_droppable(b"x", ["b"])
    a.neighbours.send_reliable(b"x", "b")
    world.run(0.1)
    assert sorted(a.log) == [("down", "b", "closed"), ("down", "c", "closed")]
    lost: list[BrokerError] = []
    channel = _AbortedChannel(lost)
    assert not world.attach("a", "b", channel)  # type: ignore[arg-type]
    assert isinstance(lost[0], Closed)


class _AbortedChannel:
    def __init__(self, errors: list[BrokerError]) -> None:
        self.abort = errors.append
