"""Nodes that log numbered events and send them to nodes with matching interest."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

import attrs
from lxml import etree

from broker.cluster.address import Address, UnitPath, is_within
from broker.cluster.interest.core import InterestExchange
from broker.cluster.interest.effects import (
    BadInterest,
    Destination,
    InterestActive,
    InterestAdded,
    InterestEffect,
    InterestRemoved,
    QueuePoliciesChanged,
)
from broker.cluster.messages import Value, decode
from broker.cluster.tables.effects import TablesEffect
from broker.event.stream import StreamPattern
from broker.matching.covering.stream_interest import StreamInterest
from broker.matching.query.query import Query, parse_query
from broker.streams.queue_policy import parse_queue_policy
from tests.cluster.tables.network import Network, Node

#: Some cover others. A low query limit widens all in the end.
TEXTS = tuple(f"/a/b > {n}" for n in range(8)) + tuple(f"/a/b = {n}" for n in range(9)) + ("/a",)
PATTERNS = ("s.x", "s.y", "s.*", ">")
STREAMS = ("s.x", "s.y", "t")
VALUES = range(9)


@cache
def pattern(text: str) -> StreamPattern:
    return StreamPattern.parse(text)


@cache
def query(text: str) -> Query:
    return parse_query(text)


class Event(NamedTuple):
    origin: str
    offset: int
    stream: str
    value: int
    time: float


@cache
def _true_for(text: str, value: int) -> bool:
    document = etree.fromstring(f"<a><b>{value}</b></a>")
    return bool(etree.XPath(f"boolean({text})", regexp=False)(document))


def matches(interest: StreamInterest, event: Event) -> bool:
    return interest.pattern.matches(event.stream) and _true_for(interest.query.text, event.value)


@attrs.define(eq=False)
class Key:
    node: str
    interest: StreamInterest
    since: float
    until: float = float("inf")
    flowing: InterestActive | None = None
    flowing_at: float = 0.0


class ProfileNode(Node):
    def __init__(self, network: Network, address: Address, incarnation: int) -> None:
        super().__init__(network, address, incarnation)
        self.interests: dict[tuple[Destination, str], StreamInterest] = {}
        self.policies: dict[Destination, dict[str, str]] = {}
        self.keys: dict[int, Key] = {}
        self.delivered: set[tuple[str, int]] = set()
        self.bad: list[BadInterest] = []
        self.profiles = InterestExchange(self.tables, MAX_QUERIES)

    def apply(self, effects: Iterable[TablesEffect]) -> None:
        self.apply_all(self.profiles.apply_effects(effects, self.network.now))

    def apply_all(self, effects: Iterable[InterestEffect]) -> None:
        for effect in effects:
            match effect:
                case InterestAdded():
                    assert (effect.destination, effect.id) not in self.interests
                    self.interests[effect.destination, effect.id] = effect.interest
                case InterestRemoved():
                    del self.interests[effect.destination, effect.id]
                case QueuePoliciesChanged():
                    self.policies[effect.destination] = {
                        id: policy.text for id, policy in effect.policies.items()
                    }
                case InterestActive():
                    assert isinstance(effect.key, int)
                    key = self.keys[effect.key]
                    assert key.flowing is None
                    key.flowing, key.flowing_at = effect, self.network.now
                case BadInterest():
                    self.bad.append(effect)
                case _:
                    super().apply([effect])

    def next_timeout(self) -> float | None:
        times = [self.tables.next_timeout(), self.profiles.next_timeout()]
        return min((time for time in times if time is not None), default=None)

    def handle_timeout(self, now: float) -> None:
        due = self.profiles.next_timeout()
        if due is not None and due <= now:
            self.apply_all(self.profiles.handle_timeout(now))
        due = self.tables.next_timeout()
        if due is not None and due <= now:
            self.apply(self.tables.handle_timeout(now))

    def receive_message(self, name: str, data: bytes, now: float) -> None:
        self.apply(self.tables.receive_message(name, decode(data), now))

    def add_interest(self, number: int, pattern_text: str, text: str) -> Key:
        interest = StreamInterest(pattern(pattern_text), query(text))
        key = self.keys[number] = Key(self.address.node, interest, self.network.now)
        self.apply_all(
            self.profiles.add_interest(number, interest.pattern, interest.query, self.network.now)
        )
        return key

    def set_policy(self, number: int, text: str) -> None:
        policy = parse_queue_policy(text)
        self.apply_all(self.profiles.set_policy(number, policy, self.network.now))

    def policies_by_query(self, destination: Destination) -> dict[tuple[str, str], str]:
        """Return the queue policy of each interest of a destination, by pattern and query."""
        policies = self.policies.get(destination, {})
        return {
            (interest.pattern.text, interest.query.text): policies.get(id, "block")
            for (other, id), interest in self.interests.items()
            if other == destination
        }

    def remove_interest(self, number: int) -> None:
        self.keys[number].until = self.network.now
        self.apply_all(self.profiles.remove_interest(number, self.network.now))
        del self.keys[number]

    def set_leadership(self, unit: UnitPath, leads: bool) -> None:
        self.apply_all(self.profiles.set_leadership(unit, leads, self.network.now))

    def matching_destinations(self, event: Event) -> set[Destination]:
        return {dest for (dest, _), interest in self.interests.items() if matches(interest, event)}

    def entered(self, event: Event, unit: UnitPath) -> set[Destination]:
        """Return the destinations of an event that enters a unit here."""
        return {
            dest
            for dest in self.matching_destinations(event)
            if isinstance(dest, str) or (is_within(dest, unit) and dest != unit)
        }

    def remote_interest(self) -> dict[tuple[Destination, str], str]:
        return {key: str(interest) for key, interest in self.interests.items()}

    def own_tables(self) -> dict[tuple[str, str], dict[str, Value]]:
        """Return the node's own tables of interest, without the versions."""
        return {
            (key.kind, key.subject): {entry: value for entry, value in table.items() if entry}
            for kind in ("profile", "summary")
            for key, table in self.tables.items(kind)
            if key.author == self.address.node
        }


MAX_QUERIES = 5


class EventNetwork(Network):
    """Each event takes a random entry node of a unit, with a random delay."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, ProfileNode)
        # On slow links events overtake tables of other routes.
        self._slowest = self.random.choice([0.05, 0.3, 1.5])
        self.events: list[Event] = []
        self.entries: dict[UnitPath, str] = {}
        self._travelling: list[tuple[float, int, str, UnitPath | None, Event]] = []

    def node(self, name: str) -> ProfileNode:
        node = self.nodes[name]
        assert isinstance(node, ProfileNode)
        return node

    def log(self, name: str) -> None:
        node = self.node(name)
        node.offset += 1
        event = Event(
            name,
            node.offset,
            self.random.choice(STREAMS),
            self.random.choice(VALUES),
            self.now,
        )
        self.events.append(event)
        self._dispatch(event, node.matching_destinations(event))

    def _dispatch(self, event: Event, destinations: Iterable[Destination]) -> None:
        for dest in sorted(destinations, key=str):
            if isinstance(dest, str):
                names, unit = [dest], None
            else:
                unit = dest
                names = [n for n, x in self.nodes.items() if is_within(x.address.unit, dest)]
            arrival = self.now + self.random.choice([0.0, 0.01, 0.1, 0.5])
            name = self.random.choice(names)
            if unit is not None and unit in self.entries:
                name, arrival = self.entries[unit], self.now
            heapq.heappush(self._travelling, (arrival, next(self._order), name, unit, event))

    def live(self, seconds: float) -> None:
        end = self.now + seconds
        while self._travelling and self._travelling[0][0] <= end:
            arrival = self._travelling[0][0]
            self.run(max(0.0, arrival - self.now))
            _, _, name, unit, event = heapq.heappop(self._travelling)
            node = self.node(name)
            if unit is None:
                node.delivered.add((event.origin, event.offset))
            else:
                # The entry node matches its own interest too.
                node.delivered.add((event.origin, event.offset))
                self._dispatch(event, node.entered(event, unit))
        self.run(max(0.0, end - self.now))
