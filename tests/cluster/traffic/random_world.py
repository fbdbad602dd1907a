"""Small random networks of simulated nodes, their faults, and checks of the final state."""

from __future__ import annotations

from collections import Counter

from broker.cluster.address import UnitPath
from broker.cluster.traffic.frame import Frame
from broker.event.place import Mark
from broker.testing.core_network import CoreNetwork
from broker.testing.core_node import CoreNode, LocalInterest
from broker.testing.core_node_log import NumberedEvent

MOST_NUMBER = 12
#: Each alternative: the clusters, and the links between them.
SHAPES: tuple[tuple[tuple[UnitPath, ...], tuple[tuple[int, int], ...]], ...] = (
    ((("a",),), ()),
    ((("a",), ("b",)), ((0, 1),)),
    ((("a",), ("b",), ("c",)), ((0, 1), (1, 2))),
    ((("a",), ("b",), ("c",), ("d",)), ((0, 1), (1, 2), (2, 3), (3, 0))),
    ((("x", "a"), ("x", "b"), ("y", "a")), ((0, 1), (1, 2))),
    ((("x", "a"), ("x", "b"), ("y", "a"), ("y", "b")), ((0, 1), (1, 2), (2, 3), (3, 0))),
)


class World:
    """A network, all its published events, and the crossings of each link."""

    def __init__(self, seed: int, *, shape: int | None = None, **settings: object) -> None:
        self.seed = seed
        self.nodes = CoreNetwork(seed, **settings)  # type: ignore[arg-type]
        self.random = self.nodes.random
        self.dead: set[str] = set()
        self.crossed: Counter[tuple[str, str, str, Mark]] = Counter()
        self.leaked: list[tuple[str, str, int]] = []
        self.pairs: list[tuple[str, str]] = []
        self.keys = 0
        self.published = 0
        self.nodes.on_frame = self._frame
        self._build(shape)

    def _build(self, shape: int | None) -> None:
        units, joins = SHAPES[self.random.randrange(len(SHAPES)) if shape is None else shape]
        members: list[list[str]] = []
        for unit in units:
            names = [f"{''.join(unit)}{i}" for i in range(self.random.randint(1, 3))]
            if len(units) == 1:
                names = [f"a{i}" for i in range(4)]
            members.append(names)
            for name in names:
                self.nodes.add_node(name, unit)
            line = self.random.random() < 0.4
            for i, one in enumerate(names):
                for other in names[i + 1 : i + 2] if line else names[i + 1 :]:
                    self.pairs.append((one, other))
        for here, there in joins:
            for _ in range(self.random.randint(1, 2)):
                pair = (self.random.choice(members[here]), self.random.choice(members[there]))
                if pair not in self.pairs:
                    self.pairs.append(pair)

    def _frame(self, sender: str, receiver: str, frame: Frame) -> None:
        link = self.nodes.links[min(sender, receiver), max(sender, receiver)]
        if frame.highest_rank > link.clearance:
            self.leaked.append((sender, receiver, frame.highest_rank))
        for mark in frame.marks():
            self.crossed[sender, receiver, frame.origin, mark] += 1

    def link_all(self) -> None:
        """Start all nodes that are not in `dead`, and link all pairs."""
        for name, node in self.nodes.nodes.items():
            if not node.is_alive and name not in self.dead:
                node.start()
        for one, other in self.pairs:
            self.nodes.link_nodes(one, other)

    def alive(self) -> list[CoreNode]:
        return [node for node in self.nodes.nodes.values() if node.is_alive]

    def want(self, node: CoreNode) -> int:
        """Add interest for a client of the node."""
        low = self.random.randrange(MOST_NUMBER)
        high = low if self.random.random() < 0.7 else min(MOST_NUMBER - 1, low + 3)
        self.keys += 1
        node.announce_interest(self.keys, (low, high))
        return self.keys

    def publish(self, node: CoreNode, most: int = 4, level: int = 0) -> None:
        count = self.random.randint(1, most)
        self.published += count
        node.publish([(self.random.randrange(MOST_NUMBER), level) for _ in range(count)])

    def check(self) -> None:
        """Check that exactly the matching events arrived, once and in order."""
        assert not self.leaked, self.leaked
        by_origin = {node.log.origin: node for node in self.alive()}
        for node in self.alive():
            self.check_log(node)
            for key, want in node.interests.items():
                assert want.cuts is not None, f"{node.name} {key} is not active"
                for origin, home in by_origin.items():
                    self._check_want(node, want, origin, home)
            assert not node.traffic.receiver.incomplete_origins, f"{node.name} has missing ranges"

    def check_log(self, node: CoreNode) -> None:
        last: dict[str, Mark] = {}
        for each in node.log.events:
            where = f"{node.name} has {each} after {last.get(each.origin)}"
            assert each.mark > last.get(each.origin, (0, 0)), where
            last[each.origin] = each.mark

    def _check_want(self, node: CoreNode, want: LocalInterest, origin: str, home: CoreNode) -> None:
        if want.cuts is None or origin not in want.cuts or home is node:
            return
        low, high = want.numbers
        has = {each.mark for each in node.log.events if each.origin == origin}
        missing: list[NumberedEvent] = [
            each
            for each in home.log.own_events
            if each.mark > want.cuts[origin] and low <= each.number <= high and each.mark not in has
        ]
        assert not missing, (
            f"{node.name} lacks {missing[:5]} of {home.name}, cut {want.cuts[origin]}, "
            f"stands at {node.traffic.receiver.position_of(origin)}"
        )

    def cleared(self, node: CoreNode) -> dict[str, tuple[CoreNode, frozenset[int]]]:
        """By origin of the cluster: its node and the levels with a route to `node`."""
        found = {}
        for home in self.alive():
            if home is not node and home.state.address.unit == node.state.address.unit:
                target = node.state.address
                levels = [r for r in range(3) if home.state.next_hop(target, r) is not None]
                found[home.log.origin] = (home, frozenset(levels))
        return found

    def unneeded_events(self, node: CoreNode) -> list[NumberedEvent]:
        """Return the node's events that never matched its interest."""
        ranges = [want.numbers for want in node.interests.values()]
        return [
            each
            for each in node.log.events
            if each.origin != node.log.origin
            and not any(low <= each.number <= high for low, high in ranges)
        ]
