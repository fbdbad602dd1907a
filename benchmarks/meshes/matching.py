"""Selection of events for the links of a router: a fake, or a node's engine."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final, Protocol

from benchmarks.routing.engine import ENGINE, Engine, load_dtds
from broker.streams.contract import CarriedInterest, FlowBatch

#: Queries of the fake: each event, or those whose AN is a multiple of `SELECTED`.
EVERYTHING: Final = "true()"
TENTH: Final = "AN mod 10 = 0"
SELECTED: Final = 10


class ILinkMatching(Protocol):
    def set_interest(self, link: Hashable, key: str, interest: CarriedInterest | None) -> object:
        """Set or remove (None) one interest behind a link."""

    def match(self, batch: FlowBatch) -> Sequence[frozenset[Hashable]]:
        """Return for each event the links behind which it is wanted."""


class FakeMatching:
    """Takes no time: it knows two queries."""

    def __init__(self) -> None:
        self._queries: dict[Hashable, dict[str, str]] = {}
        self._links_of_all: frozenset[Hashable] = frozenset()
        """Links behind which each event is selected."""
        self._links_of_tenth: frozenset[Hashable] = frozenset()
        """Links that get a selected event."""

    def set_interest(self, link: Hashable, key: str, interest: CarriedInterest | None) -> None:
        queries = self._queries.setdefault(link, {})
        if interest is None:
            queries.pop(key, None)
        else:
            queries[key] = interest.query
        found = self._queries.items()
        self._links_of_all = frozenset(k for k, each in found if EVERYTHING in each.values())
        self._links_of_tenth = frozenset(k for k, each in found if each)

    def match(self, batch: FlowBatch) -> Sequence[frozenset[Hashable]]:
        everything, selected = self._links_of_all, self._links_of_tenth
        if everything == selected:
            return [everything] * len(batch.events)
        return [everything if each.mark[1] % SELECTED else selected for each in batch.events]


class EngineMatching:
    """The engine of a node: each event is parsed or recognised, and matched."""

    def __init__(self) -> None:
        self._engine = Engine(ENGINE, load_dtds())
        self._numbers: dict[tuple[Hashable, str], int] = {}
        self._links: dict[int, Hashable] = {}
        self._sets: dict[tuple[int, ...], frozenset[Hashable]] = {}
        """Links by the matching subscriptions, as a node keeps them."""

    def set_interest(self, link: Hashable, key: str, interest: CarriedInterest | None) -> None:
        self._sets.clear()
        known = self._numbers.pop((link, key), None)
        if known is not None:
            self._engine.remove(known)
            del self._links[known]
        if interest is not None:
            number = self._engine.add(interest.query, interest.namespaces)
            self._numbers[link, key], self._links[number] = number, link

    def match(self, batch: FlowBatch) -> Sequence[frozenset[Hashable]]:
        documents = [event.document for event in batch.events]
        return [self._links_of(numbers) for numbers in self._engine.match_each(documents)]

    def _links_of(self, numbers: tuple[int, ...]) -> frozenset[Hashable]:
        found = self._sets.get(numbers)
        if found is None:
            found = self._sets[numbers] = frozenset(self._links[each] for each in numbers)
        return found
