"""Queries that no index decides: evaluated one by one, and suspended when that takes too long."""

from __future__ import annotations

from collections.abc import Iterable

from broker.errors import QueryTooExpensive
from broker.matching.accounts import FREE
from broker.matching.budget import Budget
from broker.matching.contract import Accepted, Verdict
from broker.matching.evaluation import Subject
from broker.matching.switching.compiled import Compiled, CompiledQueries
from broker.matching.switching.entry import Entry
from broker.matching.switching.registry import Registry


class SingleQueries:
    """Evaluates queries on the events of a batch, within a budget."""

    def __init__(self, registry: Registry, budget: Budget) -> None:
        self.suspensions = 0
        """Queries suspended so far."""
        self._registry = registry
        self._budget = budget
        self._compiled = CompiledQueries()
        self._suspended: list[tuple[int, QueryTooExpensive]] = []
        #: Queries that this batch suspended, each with the place of the event that did.
        self._broken: list[tuple[int, Entry]] = []

    @property
    def evaluations(self) -> int:
        """Expressions that were run."""
        return self._budget.evaluations

    def suspended(self) -> list[tuple[int, QueryTooExpensive]]:
        """Subscriptions suspended since the last call, with the reasons."""
        told, self._suspended = self._suspended, []
        return told

    def forget(self, number: int, gone: Entry | None) -> None:
        """A subscription was given up, and with it maybe a query."""
        if gone is not None:
            self._compiled.forget(gone)
        if self._suspended:
            self._suspended = [entry for entry in self._suspended if entry[0] != number]

    def begin(self) -> None:
        """Another batch comes."""
        self._broken.clear()

    def evaluate(
        self,
        candidates: Iterable[Entry],
        subject: Subject,
        place: int,
        document: bytes,
        free: float,
    ) -> list[Entry]:
        """Those that match the event at a place of the batch, in their clients' time: see
        `Budget` for what is `free`."""
        patterns = self._registry.streams.view(subject.header.stream).patterns
        get = self._compiled.get
        # What is of no concern to anybody must cost nothing, and is not to be judged.
        queries = [
            get(each) for each in candidates if each.brought(patterns) and not each.suspended
        ]
        if not queries:
            return []
        return self._judged(
            place,
            *self._budget.evaluate(
                queries,
                subject,
                document,
                lambda query: query.entry.brought(patterns),
                free,
            ),
        )

    def matches(self, entry: Entry, subject: Subject, place: int, document: bytes) -> bool:
        """Whether a query matches an event of a log, which comes when there is time for it."""
        if entry.suspended:
            return False
        query = self._compiled.get(entry)
        found = self._budget.evaluate([query], subject, document, lambda _: (), FREE)
        return bool(self._judged(place, *found))

    def _judged(
        self, place: int, matching: list[Compiled], broken: list[tuple[Compiled, QueryTooExpensive]]
    ) -> list[Entry]:
        for query, error in broken:
            self.suspensions += 1
            numbers = self._registry.suspend(query.entry)
            self._suspended.extend((number, error) for number in numbers)
            self._broken.append((place, query.entry))
        return [query.entry for query in matching]

    def first_broken(self, default: int) -> int:
        """The first place at which a query was suspended."""
        return min([place for place, _ in self._broken], default=default)

    def take_back(self, verdicts: list[Verdict | None]) -> None:
        """From the event on that suspended it a query matches nothing, however that was found."""
        for place, entry in self._broken:
            for later, verdict in enumerate(verdicts[place:], place):
                if isinstance(verdict, Accepted):
                    kept = [n for n in verdict.subscriptions if n not in entry.pairs]
                    verdicts[later] = type(verdict)(verdict.header, tuple(kept))
