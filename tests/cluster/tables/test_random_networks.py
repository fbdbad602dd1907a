"""Random graphs with publications, broken links and restarts, from seeds."""

from __future__ import annotations

import attrs
import pytest

from broker.cluster.address import UnitPath
from broker.cluster.tables.effects import TableEchoed
from broker.cluster.tables.table import TableKey
from tests.cluster.tables.network import Network, Node, Pair
from tests.seeds import seeds

UNITS: tuple[UnitPath, ...] = (("a", "1"), ("a", "2"), ("b", "1"))
#: Seconds until broken waves are repeated and dead authors aged out.
SETTLED = 150.0


@attrs.define(eq=False)
class Asked:
    """A publication with echo, and the links that stayed up since."""

    node: Node
    key: TableKey
    scope: UnitPath
    version: int
    stamp: int
    links: set[Pair]


class Story:
    """Random actions on a network, and checks of its echoes."""

    def __init__(self, seed: int) -> None:
        self.network = Network(seed)
        self.random = self.network.random
        self.asked: list[Asked] = []
        self.echoes = 0
        self.stamp = 0
        self.network.on_echo = self.check_echo
        self.network.on_break = self.broken
        count = self.random.randint(3, 30)
        for number in range(count):
            self.network.add(f"n{number}", self.random.choice(UNITS))
        for number in range(1, count):
            self.network.link(f"n{number}", f"n{self.random.randrange(number)}")
        for _ in range(self.random.randint(0, count)):
            self.network.link(*self.random.sample(list(self.network.nodes), 2))

    def broken(self, pair: Pair) -> None:
        for asked in self.asked:
            asked.links.discard(pair)

    def publish(self) -> None:
        node = self.random.choice(list(self.network.nodes.values()))
        depth = self.random.randint(0, len(node.address.unit))
        key = TableKey("t", str(depth), node.address.node)
        scope = node.address.unit[:depth]
        self.stamp += 1
        changes = {"stamp": self.stamp} | {
            f"k{self.random.randrange(5)}": self.random.choice([None, self.stamp])
            for _ in range(self.random.randrange(3))
        }
        echo = self.random.random() < 0.7
        version, effects = node.tables.publish(
            "t", str(depth), scope, changes, self.network.now, echo=echo
        )
        if echo:
            links = set(self.network.links)
            self.asked.append(Asked(node, key, scope, version, self.stamp, links))
        node.apply(effects)

    def check_echo(self, node: Node, effect: TableEchoed) -> None:
        found = [
            a
            for a in self.asked
            if a.node is node and a.key == effect.key and a.version == effect.version
        ]
        (asked,) = found
        self.asked.remove(asked)
        self.echoes += 1
        reached = self.network.connected(node.address.node, asked.scope, asked.links)
        for name in reached - {node.address.node}:
            other = self.network.nodes[name]
            stamp = other.tables.get(asked.key)["stamp"]
            assert isinstance(stamp, int) and stamp >= asked.stamp, "an echo came too early"
            assert other.view[asked.key]["stamp"] == stamp
            mark = effect.cuts[name]
            if stamp == asked.stamp:
                assert mark[1] >= other.installed_at[asked.key, "stamp"], "a cut before installing"
        assert effect.cuts[node.address.node]

    def disturb(self) -> None:
        network, names = self.network, list(self.network.nodes)
        what = self.random.random()
        if what < 0.55:
            self.publish()
        elif what < 0.7 and network.links:
            network.cut(*self.random.choice(sorted(map(sorted, network.links))))
        elif what < 0.85:
            network.link(*self.random.sample(names, 2))
        elif what < 0.9:
            node = network.nodes[self.random.choice(names)]
            subject = str(self.random.randrange(3))
            self.asked = [a for a in self.asked if a.node is not node or a.key.subject != subject]
            node.apply(node.tables.withdraw("t", subject, network.now))
        elif what < 0.95:
            name = self.random.choice(names)
            self.asked = [a for a in self.asked if a.node is not network.nodes[name]]
            network.restart(name)
        else:
            for node in network.nodes.values():
                node.offset += self.random.randrange(3)
        pause = self.random.choice([0.0, 0.01, 0.1, 0.5, 0.5, 40.0 if what > 0.98 else 1.0])
        network.run(pause)


def check_settled(network: Network) -> None:
    for author, source in network.nodes.items():
        for subject in ("0", "1", "2"):
            key = TableKey("t", subject, author)
            own = dict(source.tables.get(key))
            scope = source.address.unit[: int(subject)]
            reached = network.connected(author, scope, network.links)
            for name, node in network.nodes.items():
                if name == author:
                    continue
                expected = own if name in reached else {}
                assert dict(node.tables.get(key)) == expected, (name, key)
                assert node.view.get(key, {}) == expected
    for node in network.nodes.values():
        held = dict(node.tables.items("t"))
        for key, table in held.items():
            if key.author != node.address.node:
                assert node.view[key] == table
        assert node.view.keys() <= held.keys()


@pytest.mark.parametrize("seed", seeds(7, 40))
def test_connected_nodes_agree_and_echoes_are_true(seed: int) -> None:
    story = Story(seed)
    for _ in range(60):
        story.disturb()
    story.network.run(SETTLED)
    check_settled(story.network)
    assert not story.asked, "an echo never came"
    assert not story.network.versions_at_start, "neighbours never became even"
    assert story.echoes


def test_an_idle_network_sends_only_refreshes() -> None:
    story = Story(3)
    for node in story.network.nodes.values():
        node.apply(node.tables.publish("t", "2", node.address.unit, {"stamp": 1}, 1000.0)[1])
    story.network.run(5)
    before = story.network.sent
    story.network.run(100)
    inside = sum(
        story.network.nodes[one].address.unit == story.network.nodes[other].address.unit
        for one, other in map(sorted, story.network.links)
    )
    # Ten refreshes of each author in a cluster, over each link at most once each way.
    most = max(
        sum(node.address.unit == unit for node in story.network.nodes.values()) for unit in UNITS
    )
    assert 0 < story.network.sent - before <= 10 * most * 2 * inside
