"""Maps that learn of each change at once, as by ideal flooding."""

from __future__ import annotations

import random
from collections.abc import Iterable

import attrs

from broker.cluster.address import Address, UnitPath, enclosing_units, is_within
from broker.cluster.descriptor import Endpoint, NodeDescriptor
from broker.cluster.map.core import NetworkMap
from broker.cluster.map.own_links import OwnLinks, Publication

Pair = frozenset[str]


class Circle(AssertionError):
    """A hop-by-hop route visits a node twice."""


@attrs.define
class Node:
    descriptor: NodeDescriptor
    map: NetworkMap
    own: OwnLinks

    @property
    def address(self) -> Address:
        return self.descriptor.address


class SimulatedNetwork:
    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.links: dict[Pair, tuple[int, int]] = {}
        self._tables: dict[tuple[str, str, str], tuple[UnitPath, dict[str, object]]] = {}

    def add(self, text: str, **fields: object) -> Node:
        address = Address.parse(text)
        origin = f"{len(self.nodes):016x}"
        fields = {"tcp": Endpoint(address.node, 4000), **fields}
        descriptor = NodeDescriptor(address, origin, 1, (1,), **fields)  # type: ignore[arg-type]
        node = Node(descriptor, NetworkMap(address), OwnLinks(descriptor))
        for key, (scope, entries) in self._tables.items():
            if is_within(address.unit, scope):
                node.map.apply_change(key, scope, dict(entries))
        self.nodes[address.node] = node
        self._publish(node, node.own.set_node(descriptor))
        return node

    def describe(self, name: str, **fields: object) -> None:
        """Change the descriptor; neighbours publish it with their links, too."""
        node = self.nodes[name]
        node.descriptor = node.descriptor._replace(**fields)  # type: ignore[arg-type]
        self._publish(node, node.own.set_node(node.descriptor))
        for pair, (cost, clearance) in self.links.items():
            for far in pair - {name} if name in pair else ():
                own = self.nodes[far]
                self._publish(own, own.own.add_link(node.descriptor, "tcp", cost, clearance))

    def link(self, one: str, other: str, cost: int = 1, clearance: int = 2) -> None:
        self.links[Pair((one, other))] = (cost, clearance)
        for own, far in ((one, other), (other, one)):
            up = self.nodes[own].own.add_link(self.nodes[far].descriptor, "tcp", cost, clearance)
            self._publish(self.nodes[own], up)

    def cut(self, one: str, other: str) -> None:
        del self.links[Pair((one, other))]
        for own, far in ((one, other), (other, one)):
            self._publish(self.nodes[own], self.nodes[own].own.remove_link(far))

    def kill(self, name: str) -> None:
        """Kill the node. Its tables stay; its neighbours remove their links."""
        del self.nodes[name]
        for pair in [pair for pair in self.links if name in pair]:
            del self.links[pair]
            (far,) = pair - {name}
            self._publish(self.nodes[far], self.nodes[far].own.remove_link(name))

    def _publish(self, author: Node, publications: Iterable[Publication]) -> None:
        for each in publications:
            key = (each.kind, each.subject, author.address.node)
            entries = self._tables.setdefault(key, (each.scope, {}))[1]
            entries.update(each.changes)
            for node in (*self.nodes.values(), author):
                if is_within(node.address.unit, each.scope):
                    node.map.apply_change(key, each.scope, each.changes)

    def holds_together(self, rank: int = 0) -> bool:
        """Return True if each unit is connected inside by links cleared for `rank`."""
        units = {
            unit for node in self.nodes.values() for unit in enclosing_units(node.address.unit)
        }
        return all(self._connected(unit, rank) for unit in units)

    def _connected(self, unit: UnitPath, rank: int) -> bool:
        def child(name: str) -> str:
            path = self.nodes[name].address.unit
            return path[len(unit)] if len(path) > len(unit) else name

        inside = [name for name, node in self.nodes.items() if is_within(node.address.unit, unit)]
        groups = {child(name): {child(name)} for name in inside}
        for pair, (_cost, clearance) in self.links.items():
            if clearance >= rank and all(name in inside for name in pair):
                one, other = (groups[child(name)] for name in pair)
                one |= other
                groups.update(dict.fromkeys(one, one))
        return len({id(group) for group in groups.values()}) == 1

    def walk(self, source: str, target: Address, rank: int = 0) -> list[str] | None:
        """Return the nodes of the route; None if it ends early. Raises `Circle`."""
        way = [source]
        while way[-1] != target.node:
            hop = self.nodes[way[-1]].map.next_hop(target, rank)
            if hop is None:
                return None
            assert Pair((way[-1], hop)) in self.links, f"{way} goes on to {hop} without a link"
            assert self.links[Pair((way[-1], hop))][1] >= rank, f"{way} to {hop} is not cleared"
            if hop in way:
                raise Circle(f"{way} goes on to {hop}")
            way.append(hop)
        return way


def random_network(rng: random.Random, most_nodes: int, lowest: int = 2) -> SimulatedNetwork:
    """Return up to three levels of units, each connected inside, and a few more links."""
    network = SimulatedNetwork()
    levels = rng.randint(0, 3)
    clusters: list[UnitPath] = [()]
    for _level in range(levels):
        clusters = [(*path, f"u{i}") for path in clusters for i in range(rng.randint(1, 3))]
    names = [f"n{number:02}" for number in range(rng.randint(len(clusters), most_nodes))]
    rng.shuffle(names)
    for index, name in enumerate(names):
        cluster = clusters[index] if index < len(clusters) else rng.choice(clusters)
        network.add(str(Address(cluster, name)))

    def join(one: str, other: str) -> None:
        if one != other and Pair((one, other)) not in network.links:
            network.link(one, other, rng.randint(1, 4), rng.randint(lowest, 2))

    def within(unit: UnitPath) -> list[str]:
        return [n for n, node in network.nodes.items() if is_within(node.address.unit, unit)]

    units = {unit for cluster in clusters for unit in enclosing_units(cluster)}
    for unit in sorted(units, key=lambda unit: (-len(unit), unit)):
        depth = len(unit)
        if depth == levels:
            parts = [[name] for name in within(unit)]
        else:
            children = sorted({cluster[depth] for cluster in clusters if is_within(cluster, unit)})
            parts = [within((*unit, child)) for child in children]
        for index in range(1, len(parts)):
            join(rng.choice(parts[index]), rng.choice(rng.choice(parts[:index])))
        for _more in range(rng.randint(0, 2 * len(parts))):
            join(rng.choice(rng.choice(parts)), rng.choice(rng.choice(parts)))
    return network
