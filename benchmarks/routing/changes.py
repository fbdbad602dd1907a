"""Cost of adding one query to many, and of removing it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from benchmarks.latency import percentile
from benchmarks.routing.engine import Engine
from broker.matching.query.query import parse_query

#: Without changes, to measure an event's usual time.
_USUAL = 5


@attrs.frozen
class Changes:
    """Milliseconds of processor time of each change, in order."""

    workload: str
    queries: int
    read: Sequence[float]
    """Reading and checking the query alone; part of adding it."""
    added: Sequence[float]
    removed: Sequence[float]
    added_with_match: Sequence[float]
    """Plus the additional time of the next match, of one event."""
    removed_with_match: Sequence[float]

    def rows(self) -> list[tuple[str, Sequence[float]]]:
        return [
            ("add one", self.added),
            ("add one, and the next match", self.added_with_match),
            ("remove one", self.removed),
            ("remove one, and the next match", self.removed_with_match),
        ]

    def as_json(self) -> dict[str, Any]:
        """Return the figures in milliseconds."""
        return {
            "workload": self.workload,
            "queries": self.queries,
            "milliseconds": {what: summarise(figures) for what, figures in self.rows()},
            "reading_milliseconds": summarise(self.read),
        }


def summarise(figures: Sequence[float]) -> dict[str, float]:
    ordered = sorted(figures)
    return {
        "median": statistics.median(ordered),
        "p99": percentile(ordered, 0.99),
        "max": ordered[-1],
    }


def measure_changes(
    workload: str,
    engine: Engine,
    queries: int,
    further: Sequence[str],
    namespaces: Mapping[str, str],
    documents: Sequence[bytes],
) -> Changes:
    """Add `further` queries one at a time; then remove each.

    An engine may defer work to the next match, so its additional time counts.
    """
    longer = _extra_match_times(engine, documents)
    read, added, added_with_match, numbers = [], [], [], []
    for text in further:
        began = time.process_time()
        parse_query(text, namespaces)
        read.append(1e3 * (time.process_time() - began))
    for text in further:
        began = time.process_time()
        numbers.append(engine.add(text, namespaces))
        seconds = time.process_time() - began
        added.append(1e3 * seconds)
        added_with_match.append(1e3 * (seconds + next(longer)))
    removed, removed_with_match = [], []
    for number in numbers:
        began = time.process_time()
        engine.remove(number)
        seconds = time.process_time() - began
        removed.append(1e3 * seconds)
        removed_with_match.append(1e3 * (seconds + next(longer)))
    return Changes(workload, queries, read, added, removed, added_with_match, removed_with_match)


def _extra_match_times(engine: Engine, documents: Sequence[bytes]) -> Iterator[float]:
    """Yield the additional seconds of each match, for ever.

    An event's usual time is the median of matches without changes.
    """
    rounds = [[_seconds(engine, document) for document in documents] for _ in range(_USUAL)]
    usual = [statistics.median(times) for times in zip(*rounds, strict=True)]
    while True:
        for document, expected in zip(documents, usual, strict=True):
            yield max(0.0, _seconds(engine, document) - expected)


def _seconds(engine: Engine, document: bytes) -> float:
    began = time.process_time()
    engine.match([document])
    return time.process_time() - began
