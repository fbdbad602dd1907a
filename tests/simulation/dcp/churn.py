"""Random joins, departures, crashes and rebalances: the graph of a mesh stays valid (A6)."""

from __future__ import annotations

from random import Random

from broker.testing.datagram_network import DatagramFaults
from plugins.dcp.connection import Connection
from plugins.dcp.settings import DcpSettings
from tests.simulation.dcp.mesh import Mesh, MeshNode

_ROOTS = 3
_MOST_NODES = 24
_CHILDREN = 6


def find_edges(mesh: Mesh) -> list[tuple[MeshNode, MeshNode]]:
    """Return parent and child of each connection of live nodes on which both agree."""
    children: dict[int, MeshNode] = {}
    ends: dict[int, Connection] = {}
    for node in mesh.live:
        for child in node.router.children:
            children[child.connection.remote_id] = node
            ends[child.connection.remote_id] = child.connection
    return [
        (children[parent.connection.own_id], node)
        for node in mesh.live
        for parent in node.router.parents
        if parent.connection.own_id in children
    ]


def check_graph(mesh: Mesh) -> list[str]:
    """Return violations: circles, levels that do not rise, and nodes with too many children."""
    found: list[str] = []
    edges = find_edges(mesh)
    parents_of: dict[str, set[str]] = {}
    for parent, child in edges:
        parents_of.setdefault(child.name, set()).add(parent.name)
        upper, lower = parent.router.membership.level, child.router.membership.level
        if upper >= lower:
            found.append(f"{parent.name} has level {upper}, its child {child.name} {lower}")
    for node in mesh.live:
        most = node.router.membership.admission.most_children
        if len(node.router.children) > most:
            found.append(f"{node.name} has {len(node.router.children)} children of {most}")
    if circle := _find_circle(parents_of):
        found.append(f"a circle: {circle}")
    return [f"{mesh.now:.2f} s: {each}" for each in found]


def _find_circle(parents_of: dict[str, set[str]]) -> list[str]:
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for parent in sorted(parents_of.get(name, ())):
            if circle := visit(parent, [*path, name]):
                return circle
        done.add(name)
        return []

    for name in parents_of:
        if circle := visit(name, []):
            return circle
    return []


class Churn:
    """Operations of one seed, with the graph checked whenever a node has other parents or children,
    or another level."""

    def __init__(self, seed: int) -> None:
        self.random = Random(f"churn {seed}")
        loss = self.random.choice((0.0, 0.05, 0.2))
        self.mesh = Mesh(
            seed,
            DcpSettings(parents=self.random.choice((2, 3)), children=_CHILDREN),
            DatagramFaults(loss=loss, jitter=0.01),
            [f"root{number}" for number in range(_ROOTS)],
        )
        self._count = 0
        self._places: dict[MeshNode, object] = {}
        """Level, parents and children of each node at the last check."""
        self.checks = 0
        self._violations: list[str] = []
        self.mesh.on_change = self._check_changed
        for name in self.mesh.roots:
            self.mesh.add_root(name)

    def run(self, operations: int) -> list[str]:
        """Return the violations."""
        for _ in range(operations):
            self._operate()
            for _ in range(self.random.choice((1, 1, 4))):
                self.mesh.run(self.random.choice((0.02, 0.1, 0.5)))
                if self._violations:
                    return self._violations
        return []

    def _check_changed(self, node: MeshNode) -> None:
        router = node.router
        links = [parent.connection.own_id for parent in router.parents]
        place = router.membership.level, links, len(router.children)
        if self._places.get(node) != place:
            self._places[node] = place
            self.checks += 1
            self._violations += check_graph(self.mesh)

    def _operate(self) -> None:
        random, mesh = self.random, self.mesh
        others = [node for node in mesh.live if not node.is_root]
        choice = random.random()
        if len(others) < 6 or (choice < 0.45 and len(others) < _MOST_NODES):
            self._count += 1
            mesh.add(f"node{self._count}")
        elif choice < 0.65:
            random.choice(others).kill()
        elif choice < 0.8:
            node = random.choice(others)
            node.router.membership.leave(mesh.now)
            node.changed()
            mesh.time.clock.callLater(2.0, node.stop)
        else:
            node = random.choice(others)
            node.router.membership.rebalance(mesh.now)
            node.changed()
