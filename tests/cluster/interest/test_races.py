"""Wants that come, go, widen and narrow while they travel, and leaders that change: from seeds."""

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
#: No event travels longer over all its hops, in seconds.
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
        # Each unit is connected in itself: link to one of the nearest.
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
            self.network.node(self.inside(unit)[0]).lead(unit, True)
        self.keys: dict[int, Key] = {}
        self.all_keys: list[Key] = []

    def units(self) -> list[UnitPath]:
        """All below the top, largest first."""
        units = {
            node.address.unit[:depth]
            for node in self.network.nodes.values()
            for depth in range(1, len(node.address.unit) + 1)
        }
        return sorted(units, key=lambda unit: (len(unit), unit))

    def inside(self, unit: UnitPath) -> list[str]:
        nodes = self.network.nodes.items()
        return sorted(name for name, node in nodes if is_within(node.address.unit, unit))

    def want(self) -> None:
        number = len(self.all_keys)
        node = self.network.node(self.random.choice(self.names))
        key = node.want(number, self.random.choice(PATTERNS), self.random.choice(TEXTS))
        self.keys[number] = key
        self.all_keys.append(key)

    def unwant(self) -> None:
        if self.keys:
            number = self.random.choice(list(self.keys))
            self.network.node(self.keys.pop(number).node).unwant(number)

    def change_leader(self) -> None:
        """Nobody, one, or all of a unit may think that they lead it, for a while."""
        if units := self.units():
            unit = self.random.choice(units)
            for name in self.inside(unit):
                self.network.node(name).lead(unit, self.random.random() < 0.4)

    def settle_leaders(self) -> None:
        for unit in self.units():
            leader = self.random.choice(self.inside(unit))
            for name in self.inside(unit):
                self.network.node(name).lead(unit, name == leader)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            what = self.random.random()
            if what < 0.3:
                self.want()
            elif what < 0.5:
                self.unwant()
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
    """How many events lie behind the cut; all have arrived."""
    if key.flowing is None:
        return 0
    checked = 0
    for event in network.events:
        if event.origin == key.node or event.time > key.until - TRAVEL:
            continue
        cut = key.flowing.cuts.get(event.origin)
        after = event.time > key.flowing_at if cut is None else event.offset > cut[1]
        if after and matches(key.want, event):
            checked += 1
            delivered = network.node(key.node).delivered
            assert (event.origin, event.offset) in delivered, (key, event)
    return checked


@pytest.mark.parametrize("seed", seeds(8, 20))
def test_nothing_that_matches_is_missed_after_its_cut(seed: int) -> None:
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
def test_what_is_wanted_depends_on_the_remaining_wants_alone(seed: int) -> None:
    """A19: every level asks for what it would ask in a network that never knew the others."""
    story = Story(seed)
    story.run(80)
    fresh = Story(seed)
    for number, key in story.keys.items():
        fresh.network.node(key.node).want(number, key.want.pattern.text, key.want.query.text)
    fresh.network.live(60)
    for name in story.names:
        assert story.network.node(name).asks() == fresh.network.node(name).asks()
    for unit in story.units():
        said = [
            says
            for name in story.names
            if (says := story.network.node(name).says().get(("summary", ".".join(unit))))
            is not None
        ]
        (once,) = said
        leader = fresh.network.node(fresh.inside(unit)[0])
        assert once == leader.says()["summary", ".".join(unit)]


@pytest.mark.parametrize("seed", seeds(5, 10))
def test_an_entry_that_hears_late_of_a_want_lets_nothing_slip(seed: int) -> None:
    """The summary is echoed by the far cluster before the entry of the own one has the profile."""
    network = EventNetwork(seed)
    for name, unit in (("leader", ("c1",)), ("entry", ("c1",)), ("far", ("c2",))):
        network.add(name, unit)
    network.link("leader", "entry")
    network.link("leader", "far")
    network.node("leader").lead(("c1",), True)
    network.node("far").lead(("c2",), True)
    network.live(20)
    network.links = {pair: 1.5 if "entry" in pair else 0.01 for pair in network.links}
    network.entries[("c1",)] = "entry"
    key = network.node("leader").want(1, ">", "/a")
    for _ in range(500):
        network.log("far")
        network.live(0.02)
    network.live(20)
    assert nothing_is_missed(network, key)
