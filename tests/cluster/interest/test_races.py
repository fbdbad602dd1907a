"""Interest changes under way, with changing leaders, from seeds."""

from __future__ import annotations

import pytest

from broker.cluster.address import UnitPath, common_prefix, is_within
from tests.cluster.interest.network import PATTERNS, TEXTS, EventNetwork, Key, matches
from tests.seeds import seeds

HIERARCHIES: tuple[tuple[UnitPath, ...], ...] = (
    ((),),
    (("c1",), ("c2",), ("c3",)),
    (("a", "1"), ("a", "2"), ("b", "1"), ("b", "2")),
    (("a", "1", "x"), ("a", "1", "y"), ("a", "2", "x"), ("b", "1", "x")),
)
#: Seconds over all hops.
TRAVEL = 3.0


class Story:
    def __init__(self, seed: int) -> None:
        self.network = EventNetwork(seed)
        self.random = self.network.random
        clusters = self.random.choice(HIERARCHIES)
        count = self.random.randint(len(clusters), len(clusters) + 8)
        for number in range(count):
            unit = clusters[number] if number < len(clusters) else self.random.choice(clusters)
            self.network.add(f"n{number:02}", unit)
        self.names = list(self.network.nodes)
        # Link to one of the nearest nodes.
        for number, name in enumerate(self.names[1:], 1):
            mine = self.network.nodes[name].address.unit
            near = {
                peer: len(common_prefix(mine, self.network.nodes[peer].address.unit))
                for peer in self.names[:number]
            }
            nearest = [peer for peer, depth in near.items() if depth == max(near.values())]
            self.network.link(name, self.random.choice(nearest))
        for _ in range(self.random.randint(0, count)):
            if count > 1:
                self.network.link(*self.random.sample(self.names, 2))
        for unit in self.units():
            self.network.node(self.inside(unit)[0]).set_leadership(unit, True)
        self.keys: dict[int, Key] = {}
        self.all_keys: list[Key] = []

    def units(self) -> list[UnitPath]:
        units = {
            node.address.unit[:depth]
            for node in self.network.nodes.values()
            for depth in range(1, len(node.address.unit) + 1)
        }
        return sorted(units, key=lambda unit: (len(unit), unit))

    def inside(self, unit: UnitPath) -> list[str]:
        nodes = self.network.nodes.items()
        return sorted(name for name, node in nodes if is_within(node.address.unit, unit))

    def add_interest(self) -> None:
        number = len(self.all_keys)
        node = self.network.node(self.random.choice(self.names))
        key = node.add_interest(number, self.random.choice(PATTERNS), self.random.choice(TEXTS))
        self.keys[number] = key
        self.all_keys.append(key)

    def remove_interest(self) -> None:
        if self.keys:
            number = self.random.choice(list(self.keys))
            self.network.node(self.keys.pop(number).node).remove_interest(number)

    def change_leader(self) -> None:
        """For a while none, one or all nodes of a unit act as its leader."""
        if units := self.units():
            unit = self.random.choice(units)
            for name in self.inside(unit):
                self.network.node(name).set_leadership(unit, self.random.random() < 0.4)

    def settle_leaders(self) -> None:
        for unit in self.units():
            leader = self.random.choice(self.inside(unit))
            for name in self.inside(unit):
                self.network.node(name).set_leadership(unit, name == leader)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            what = self.random.random()
            if what < 0.3:
                self.add_interest()
            elif what < 0.5:
                self.remove_interest()
            elif what < 0.58:
                self.change_leader()
            else:
                for name in self.names:
                    if self.random.random() < 0.5:
                        self.network.log(name)
            self.network.live(self.random.choice([0.0, 0.0, 0.01, 0.05, 0.2, 1.0]))
        self.settle_leaders()
        self.network.live(150)
        for name in self.names * 5:
            self.network.log(name)
        self.network.live(TRAVEL)

    def check_nothing_is_missed(self) -> int:
        return sum(nothing_is_missed(self.network, key) for key in self.all_keys)


def nothing_is_missed(network: EventNetwork, key: Key) -> int:
    """Return the number of events behind the cut, all of which must have arrived."""
    if key.flowing is None:
        return 0
    checked = 0
    for event in network.events:
        if event.origin == key.node or event.time > key.until - TRAVEL:
            continue
        cut = key.flowing.cuts.get(event.origin)
        after = event.time > key.flowing_at if cut is None else event.offset > cut[1]
        if after and matches(key.interest, event):
            checked += 1
            delivered = network.node(key.node).delivered
            assert (event.origin, event.offset) in delivered, (key, event)
    return checked


@pytest.mark.parametrize("seed", seeds(2, 20))
def test_no_matching_event_is_missed_after_its_cut(seed: int) -> None:
    story = Story(seed)
    story.run(120)
    assert all(key.flowing is not None for key in story.keys.values()), "it never flows"
    for name in story.names:
        for key in story.keys.values():
            if key.flowing is not None and key.flowing.cuts:
                assert name in key.flowing.cuts
    checked = story.check_nothing_is_missed()
    assert checked or len(story.names) == 1 or not story.keys


@pytest.mark.parametrize("seed", seeds(5, 12))
def test_published_interest_depends_only_on_the_remaining_interest(seed: int) -> None:
    """A19."""
    story = Story(seed)
    story.run(80)
    fresh = Story(seed)
    for number, key in story.keys.items():
        fresh.network.node(key.node).add_interest(
            number, key.interest.pattern.text, key.interest.query.text
        )
    fresh.network.live(60)
    for name in story.names:
        assert (
            story.network.node(name).remote_interest() == fresh.network.node(name).remote_interest()
        )
    for unit in story.units():
        tables = [
            table
            for name in story.names
            if (table := story.network.node(name).own_tables().get(("summary", ".".join(unit))))
            is not None
        ]
        (once,) = tables
        leader = fresh.network.node(fresh.inside(unit)[0])
        assert once == leader.own_tables()["summary", ".".join(unit)]


@pytest.mark.parametrize("seed", seeds(5, 10))
def test_an_entry_node_with_late_interest_misses_no_event(seed: int) -> None:
    network = EventNetwork(seed)
    for name, unit in (("leader", ("c1",)), ("entry", ("c1",)), ("far", ("c2",))):
        network.add(name, unit)
    network.link("leader", "entry")
    network.link("leader", "far")
    network.node("leader").set_leadership(("c1",), True)
    network.node("far").set_leadership(("c2",), True)
    network.live(20)
    network.links = {pair: 1.5 if "entry" in pair else 0.01 for pair in network.links}
    network.entries[("c1",)] = "entry"
    key = network.node("leader").add_interest(1, ">", "/a")
    for _ in range(500):
        network.log("far")
        network.live(0.02)
    network.live(20)
    assert nothing_is_missed(network, key)
