"""Maps fed by real tables over delayed links."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Iterable

import pytest

from broker.cluster.address import Address
from broker.cluster.descriptor import NodeDescriptor
from broker.cluster.map.core import NetworkMap
from broker.cluster.map.own_links import OwnLinks, Publication
from broker.cluster.messages import decode, encode
from broker.cluster.tables.core import Tables
from broker.cluster.tables.effects import Send, TableChanged, TablesEffect
from tests.cluster.map.simulated_network import Pair, SimulatedNetwork, random_network
from tests.cluster.sample_nodes import a_node


class FloodedNode:
    """A node's tables and map, wired as in `NetworkState`."""

    def __init__(self, descriptor: NodeDescriptor, network: Flood) -> None:
        self.descriptor = descriptor
        self.network = network
        self.map = NetworkMap(descriptor.address)
        self.own = OwnLinks(descriptor)
        self.tables = Tables(descriptor.address, 1, lambda: [(descriptor.origin, 0, 0)])

    def publish(self, publications: Iterable[Publication]) -> None:
        for each in publications:
            key = (each.kind, each.subject, self.descriptor.name)
            self.map.apply_change(key, each.scope, each.changes)
            now = self.network.now
            _version, effects = self.tables.publish(
                each.kind, each.subject, each.scope, each.changes, now
            )
            self.do(effects)

    def do(self, effects: Iterable[TablesEffect]) -> None:
        for effect in effects:
            match effect:
                case Send(neighbour, message):
                    self.network.send(self.descriptor.name, neighbour, encode(message))
                case TableChanged(key, scope, changes, gone):
                    self.map.apply_change(key, scope, changes, gone)


class Flood:
    """FIFO links with delays, in virtual time."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.now = 0.0
        self.nodes: dict[str, FloodedNode] = {}
        self.links: dict[Pair, tuple[int, int, float]] = {}
        self._order = itertools.count()
        self._under_way: list[tuple[float, int, str, str, bytes]] = []
        self._last: dict[tuple[str, str], float] = {}

    def add(self, descriptor: NodeDescriptor) -> None:
        node = self.nodes[descriptor.name] = FloodedNode(descriptor, self)
        node.publish(node.own.set_node(descriptor))

    def link(self, one: str, other: str, cost: int) -> None:
        self.links[Pair((one, other))] = (cost, 2, self.now)
        for own, far in ((one, other), (other, one)):
            node, peer = self.nodes[own], self.nodes[far].descriptor
            node.do(node.tables.add_neighbour(far, peer.address.unit, self.now))
            node.publish(node.own.add_link(peer, "tcp", cost, 2))

    def cut(self, one: str, other: str) -> None:
        del self.links[Pair((one, other))]
        self._under_way = [each for each in self._under_way if {one, other} != set(each[2:4])]
        heapq.heapify(self._under_way)
        for own, far in ((one, other), (other, one)):
            if node := self.nodes.get(own):
                node.do(node.tables.remove_neighbour(far, self.now))
                node.publish(node.own.remove_link(far))

    def kill(self, name: str) -> None:
        del self.nodes[name]
        for pair in [pair for pair in self.links if name in pair]:
            self.cut(*pair)

    def send(self, source: str, target: str, data: bytes) -> None:
        due = max(self._last.get((source, target), 0.0), self.now + self.rng.uniform(0.001, 0.2))
        self._last[source, target] = due
        heapq.heappush(self._under_way, (due, next(self._order), source, target, data))

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while True:
            due = [at for node in self.nodes.values() if (at := node.tables.next_timeout())]
            at = min([*due, *(each[0] for each in self._under_way[:1]), end])
            self.now = max(self.now, at)
            if self.now >= end:
                return
            while self._under_way and self._under_way[0][0] <= self.now:
                _due, _order, source, target, data = heapq.heappop(self._under_way)
                node = self.nodes[target]
                node.do(node.tables.receive_message(source, decode(data), self.now))
            for node in self.nodes.values():
                node.do(node.tables.handle_timeout(self.now))

    def everyone_finds_everyone(self) -> None:
        for source in self.nodes:
            for target in self.nodes.values():
                self._walk(source, target.descriptor.address)

    def _walk(self, source: str, target: Address) -> None:
        way = [source]
        while way[-1] != target.node:
            hop = self.nodes[way[-1]].map.next_hop(target)
            assert hop and hop not in way, f"{way} to {target} goes on to {hop}"
            assert Pair((way[-1], hop)) in self.links
            way.append(hop)


def flooded(shape: SimulatedNetwork, rng: random.Random) -> Flood:
    """Return the same nodes and links, started in random order."""
    flood = Flood(rng)
    for node in shape.nodes.values():
        flood.add(node.descriptor)
    for pair in rng.sample(sorted(shape.links, key=sorted), len(shape.links)):
        one, other = sorted(pair)
        flood.link(one, other, shape.links[pair][0])
        flood.run(rng.uniform(0.0, 0.05))
    return flood


@pytest.mark.parametrize("seed", range(6))
def test_maps_agree_soon_after_the_last_change(seed: int) -> None:
    rng = random.Random(seed)
    shape = random_network(rng, 20)
    flood = flooded(shape, rng)
    flood.run(8.0)
    flood.everyone_finds_everyone()
    for _blow in range(4):
        pair = rng.choice(sorted(shape.links, key=sorted))
        cost, clearance = shape.links[pair]
        shape.cut(*pair)
        if shape.holds_together():
            flood.cut(*pair)
        else:
            one, other = pair
            shape.link(one, other, cost, clearance)
        flood.run(rng.uniform(0.0, 0.3))
    flood.run(8.0)
    flood.everyone_finds_everyone()


def test_a_dead_gateway_is_replaced_and_finally_removed() -> None:
    flood = Flood(random.Random(1))
    for name in ("a/a1", "a/a2", "a/a3", "b/b1", "b/b2"):
        flood.add(a_node(name))
    for one, other in (("a1", "a2"), ("a2", "a3"), ("a1", "a3"), ("b1", "b2")):
        flood.link(one, other, 1)
    flood.link("a1", "b1", 1)
    flood.link("a2", "b2", 1)
    flood.run(2.0)
    a3 = flood.nodes["a3"].map
    assert a3.next_hop_to_unit(("b",)) == "a1"
    flood.kill("a1")
    flood.run(2.0)
    assert a3.next_hop_to_unit(("b",)) == "a2"
    assert "a1" in a3.members()
    assert flood.nodes["a2"].map.led_units() == {("a",), ()}
    flood.run(60.0)
    assert "a1" not in a3.members()
    flood.everyone_finds_everyone()
