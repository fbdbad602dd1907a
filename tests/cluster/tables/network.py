"""Nodes with tables on delayed and broken links, in virtual time from a seed."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Iterable

from broker.cluster.address import Address, UnitPath, is_within
from broker.cluster.messages import Value, decode, encode
from broker.cluster.tables.core import Tables
from broker.cluster.tables.effects import (
    NameConflict,
    Send,
    TableChanged,
    TableEchoed,
    TablesEffect,
)
from broker.cluster.tables.table import GroupKey, TableKey, TableLimits, TableTimes

Pair = frozenset[str]


class Node:
    """One process of a node. Its log grows at each installed change, and at other times."""

    def __init__(self, network: Network, address: Address, incarnation: int) -> None:
        self.network, self.address, self.incarnation = network, address, incarnation
        self.offset = 0
        self.view: dict[TableKey, dict[str, Value]] = {}
        self.installed_at: dict[tuple[TableKey, str], int] = {}
        """Log offset at which an entry's present value was installed."""
        self.tables = Tables(address, incarnation, self.cut, network.times, network.limits)

    def cut(self) -> list[tuple[str, int, int]]:
        return [(self.address.node, self.incarnation, self.offset)]

    def apply(self, effects: Iterable[TablesEffect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self.network.send(self, effect)
            elif isinstance(effect, TableChanged):
                self.apply_change(effect)
            elif isinstance(effect, TableEchoed):
                self.network.echoed(self, effect)
            else:
                assert not isinstance(effect, NameConflict)
                self.network.synchronised(self, effect.neighbour)

    def held_versions(self, unit: UnitPath) -> dict[GroupKey, tuple[int, int]]:
        """Return the versions of the scopes that contain a unit."""
        keys = {
            (GroupKey(key.author, scope), key)
            for key, _ in self.tables.items("t")
            for scope in [self.address.unit[: int(key.subject)]]
            if is_within(unit, scope)
        }
        return {group: self.tables.version_of(key, group.scope) for group, key in keys}

    def apply_change(self, effect: TableChanged) -> None:
        # A cut read too early lacks this event.
        self.offset += 1
        assert is_within(self.address.unit, effect.scope)
        table = self.view.setdefault(effect.key, {})
        for key, value in effect.changes.items():
            if value is None:
                del table[key]
            else:
                assert table.get(key) != value
                table[key] = value
                self.installed_at[effect.key, key] = self.offset
        if effect.is_removed:
            assert not table
            del self.view[effect.key]

    def next_timeout(self) -> float | None:
        return self.tables.next_timeout()

    def handle_timeout(self, now: float) -> None:
        self.apply(self.tables.handle_timeout(now))

    def add_neighbour(self, name: str, unit: UnitPath, now: float) -> None:
        self.apply(self.tables.add_neighbour(name, unit, now))

    def remove_neighbour(self, name: str, now: float) -> None:
        self.apply(self.tables.remove_neighbour(name, now))

    def receive_message(self, name: str, data: bytes, now: float) -> None:
        self.apply(self.tables.receive_message(name, decode(data), now))


class Network:
    def __init__(
        self,
        seed: int,
        make: Callable[[Network, Address, int], Node] = Node,
        *,
        slowest: float = 0.2,
    ) -> None:
        self.random = random.Random(seed)
        self.now = 1000.0
        self.times, self.limits = TableTimes(), TableLimits()
        self.nodes: dict[str, Node] = {}
        self.links: dict[Pair, float] = {}
        self.sent = 0
        self.bytes = 0
        self.on_echo: Callable[[Node, TableEchoed], None] = lambda node, effect: None
        self.on_break: Callable[[Pair], None] = lambda pair: None
        self.versions_at_start: dict[tuple[str, str], dict[GroupKey, tuple[int, int]]] = {}
        """By (node, neighbour): the neighbour's versions at link start, until synchronised."""
        self._make, self._slowest = make, slowest
        self._generation: dict[Pair, int] = {}
        self._last: dict[tuple[str, str], float] = {}
        self._queue: list[tuple[float, int, str, str, int, bytes]] = []
        self._order = itertools.count()

    def add(self, node: str, unit: UnitPath) -> Node:
        made = self.nodes[node] = self._make(self, Address(unit, node), 1)
        return made

    def restart(self, name: str) -> None:
        old = self.nodes[name]
        pairs = [pair for pair in self.links if name in pair]
        for pair in pairs:
            self.cut(*pair)
        made = self._make(self, old.address, old.incarnation + 1)
        self.nodes[name] = made
        for pair in pairs:
            self.link(*pair)

    def link(self, one: str, other: str) -> None:
        pair = frozenset((one, other))
        if pair in self.links:
            return
        self.links[pair] = self.random.uniform(0.001, self._slowest)
        self._generation[pair] = self._generation.get(pair, 0) + 1
        for name, peer in ((one, other), (other, one)):
            self.versions_at_start[name, peer] = self.nodes[peer].held_versions(
                self.nodes[name].address.unit
            )
            self.nodes[name].add_neighbour(peer, self.nodes[peer].address.unit, self.now)

    def cut(self, one: str, other: str) -> None:
        pair = frozenset((one, other))
        if self.links.pop(pair, None) is None:
            return
        self._generation[pair] += 1
        self.on_break(pair)
        for name, peer in ((one, other), (other, one)):
            self.versions_at_start.pop((name, peer), None)
            self.nodes[name].remove_neighbour(peer, self.now)

    def send(self, sender: Node, effect: Send) -> None:
        name, peer = sender.address.node, effect.neighbour
        scope = getattr(effect.message, "scope", ())
        assert is_within(self.nodes[peer].address.unit, scope), "a scope leaks"
        pair = frozenset((name, peer))
        delay = self.random.uniform(0, self.links[pair])
        arrival = max(self.now + delay, self._last.get((name, peer), 0.0))
        self._last[name, peer] = arrival
        data = encode(effect.message)
        self.sent += 1
        self.bytes += len(data)
        generation = self._generation[pair]
        heapq.heappush(self._queue, (arrival, next(self._order), name, peer, generation, data))

    def echoed(self, node: Node, effect: TableEchoed) -> None:
        self.on_echo(node, effect)

    def synchronised(self, node: Node, neighbour: str) -> None:
        """Check that the neighbour's tables from the link start are here."""
        for key, version in self.versions_at_start.pop((node.address.node, neighbour)).items():
            subject = str(len(key.scope))
            held = node.tables.version_of(TableKey("t", subject, key.author), key.scope)
            later = self.nodes[key.author].incarnation > version[0]
            assert held >= version or later, f"{node.address} lacks {key} of {neighbour}"

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while True:
            timers = [
                (time, name)
                for name, node in self.nodes.items()
                if (time := node.next_timeout()) is not None
            ]
            timer = min(timers, default=(float("inf"), ""))
            arrival = self._queue[0][0] if self._queue else float("inf")
            if min(timer[0], arrival) > end:
                break
            if timer[0] <= arrival:
                self.now = max(self.now, timer[0])
                self.nodes[timer[1]].handle_timeout(self.now)
            else:
                self._arrive()
        self.now = end

    def _arrive(self) -> None:
        arrival, _, name, peer, generation, data = heapq.heappop(self._queue)
        self.now = max(self.now, arrival)
        if self._generation[frozenset((name, peer))] == generation:
            self.nodes[peer].receive_message(name, data, self.now)

    def connected(self, start: str, scope: UnitPath, links: Iterable[Pair]) -> set[str]:
        """Return the nodes connected to `start` inside the scope."""
        inside = {n for n, node in self.nodes.items() if is_within(node.address.unit, scope)}
        pairs = [pair for pair in links if pair <= inside]
        reached, frontier = {start}, [start]
        while frontier:
            name = frontier.pop()
            for pair in pairs:
                if name in pair:
                    (peer,) = pair - {name}
                    if peer not in reached:
                        reached.add(peer)
                        frontier.append(peer)
        return reached
