"""A simulated network of three levels, with interests and publications."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Final

import attrs

from broker.cluster.traffic.frame import Frame
from broker.event.place import Mark
from broker.testing.core_network import CoreNetwork
from broker.testing.core_node import CoreNode

#: Node n of a cluster is linked to n + 1 and n + 3; in a ring of clusters or units to n + 1.
_STEPS: Final = (1, 3)
#: Numbers requested in a unit, and offset of the next unit's.
_OF_A_UNIT: Final = 60
_UNITS_APART: Final = 30
_OF_A_CLUSTER: Final = 40
#: About 5 ms one way.
_SLOWEST: Final = 0.01


@attrs.define
class Crossings:
    frames: int = 0
    events: int = 0
    bytes: int = 0
    most: int = 0
    """Most crossings of one link, in one direction, by one event."""


class NodeNetwork:
    """`width` units of `width` clusters of `width` nodes, with two links between neighbours."""

    def __init__(self, seed: int, width: int) -> None:
        self.nodes = CoreNetwork(seed, slowest=_SLOWEST, wire=False, capacity=1024)
        self.random = self.nodes.random
        self.width = width
        self.names = [
            (unit, cluster, node)
            for unit in range(width)
            for cluster in range(width)
            for node in range(width)
        ]
        self._interested: dict[int, set[str]] = {}
        self._published: dict[tuple[str, Mark], tuple[int, float]] = {}
        self._seen: Counter[str] = Counter()
        self.late: list[float] = []
        """Seconds from publication to the last interested node, by event."""

    # ------------------------------------------------------------------ making it

    def build(self) -> None:
        for unit, cluster, node in self.names:
            self.nodes.add_node(_name(unit, cluster, node), (f"u{unit}", f"c{cluster}"))
        for one, other in self._links():
            self.nodes.link_nodes(one, other)

    def _links(self) -> Iterator[tuple[str, str]]:
        width = self.width
        for unit, cluster, node in self.names:
            for step in _STEPS:
                yield _name(unit, cluster, node), _name(unit, cluster, (node + step) % width)
        for unit, cluster, side in itertools.product(range(width), range(width), (0, 1)):
            near, far = 2 * side % width, (2 * side + 1) % width
            yield _name(unit, cluster, near), _name(unit, (cluster + 1) % width, far)
        for unit, side in itertools.product(range(width), (0, 1)):
            cluster = (side * width // 2) % width
            yield _name(unit, cluster, 0), _name((unit + 1) % width, cluster, width - 1)

    def subscribe(self, each: int) -> None:
        """Add subscriptions to numbers popular in a node's neighbourhood."""
        for unit, cluster, node in self.names:
            first = unit * _UNITS_APART + (cluster * 7) % (_OF_A_UNIT - _OF_A_CLUSTER)
            name = _name(unit, cluster, node)
            for key in range(each):
                number = first + self.random.randrange(_OF_A_CLUSTER)
                self.nodes.nodes[name].announce_interest(key, (number, number))
                self._interested.setdefault(number, set()).add(name)

    def are_interests_active(self) -> bool:
        return all(
            interest.cuts is not None
            for node in self.running_nodes()
            for interest in node.interests.values()
        )

    def running_nodes(self) -> list[CoreNode]:
        return [node for node in self.nodes.nodes.values() if node.is_alive]

    # ------------------------------------------------------------------ events

    def publish(self, node: CoreNode) -> None:
        number = self.random.choice(sorted(self._interested))
        before = node.log.newest_place
        node.publish([(number, 0)])
        mark = (before[0], before[1] + 1)
        self._published[node.log.origin, mark] = (number, self.nodes.now)

    def count_missing(self) -> int:
        """Count missing deliveries at running nodes."""
        has: Counter[tuple[str, Mark]] = Counter()
        for node in self.running_nodes():
            numbers = {interest.numbers[0] for interest in node.interests.values()}
            for each in node.log.events:
                if each.number in numbers and each.origin != node.log.origin:
                    has[each.origin, each.mark] += 1
        return self.count_expected() - sum(has[event] for event in self._published)

    def count_expected(self) -> int:
        """Count deliveries except at the publishing nodes."""
        publishers = {node.log.origin: node.name for node in self.nodes.nodes.values()}
        running = {node.name for node in self.running_nodes()}
        return sum(
            len((self._interested[number] & running) - {publishers[origin]})
            for (origin, _), (number, _) in self._published.items()
        )

    def clear_published(self) -> None:
        self._published.clear()

    def count_crossings(self) -> Crossings:
        """Count from now on."""
        crossings = Crossings()
        times: Counter[tuple[str, str, str, Mark]] = Counter()

        def crossed(sender: str, receiver: str, frame: Frame) -> None:
            marks = frame.marks()
            if marks:
                crossings.frames += 1
                crossings.events += len(marks)
                crossings.bytes += len(frame.encode())
                for mark in marks:
                    times[sender, receiver, frame.origin, mark] += 1
                    crossed_times = times[sender, receiver, frame.origin, mark]
                    crossings.most = max(crossings.most, crossed_times)

        self.nodes.on_frame = crossed
        return crossings


def _name(unit: int, cluster: int, node: int) -> str:
    return f"u{unit}c{cluster}n{node}"
