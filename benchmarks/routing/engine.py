"""Matching engines as a node runs them: batches in, verdicts out."""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs
from twisted.internet.task import Clock

from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.harness.flights import FLIGHT
from benchmarks.workloads.nitf_grammar import nitf_dtd
from benchmarks.workloads.voevent_packets import NoData
from broker.dtd.cache import CacheLimits, DtdCache
from broker.dtd.catalogue import Catalogue, shipped_folder
from broker.dtd.fetch_hint import FetchHint
from broker.dtd.reference import DtdReference
from broker.event.stream import StreamPattern
from broker.matching.contract import NO_VARIANTS, Accepted, Variants
from broker.matching.query.query import parse_query
from broker.sessions.time_slices import SLICE_SECONDS

#: Only the measured engine is imported.
ENGINES: Final = {
    "switch": ("broker.matching.switch", "Switch"),
    "reference": ("broker.matching.reference_matcher", "ReferenceMatcher"),
}
#: The second one is correct by definition.
ENGINE: Final = "switch"
ORACLE: Final = "reference"
#: As in a node; a match has a time limit there too.
BATCH: Final = 500

_SHIPPED: Final = (
    DtdReference(FLIGHT.name, FLIGHT.version),
    DtdReference("VOEvent", "1.1"),
    DtdReference("VOEvent", "2.0"),
)
#: As many as a node accepts.
_QUERIES_OF_A_CLIENT: Final = 1_000
_EVERYWHERE: Final = StreamPattern.parse(">")


@attrs.frozen
class Matched:
    matches: int
    evaluations: int
    """Compiled XPath expressions that ran because no index decided."""
    parsed: int
    """Documents that were recognised only by a parse."""
    unready: int = 0
    """Shapes without bindings of all queries so far."""


def load_dtds() -> DtdCache:
    cache = DtdCache(Catalogue.load(shipped_folder()), [], CacheLimits(), Clock())
    for reference in _SHIPPED:
        # The catalogue supplies it at once.
        cache.lookup(reference, FetchHint(""))
    try:
        cache.add(*nitf_dtd())
    except NoData:
        # Then there are no NITF documents either.
        return cache
    return cache


class Engine:
    """One engine with subscriptions to every stream."""

    def __init__(self, name: str, dtds: DtdCache, variants: Variants = NO_VARIANTS) -> None:
        """`variants` replace the DTDs of events."""
        module, factory = ENGINES[name]
        make = getattr(importlib.import_module(module), factory)
        self._matcher: Any = make(dtds, clock=time.perf_counter)
        self._variants = variants
        self._added = 0

    def subscribe(self, queries: Iterable[str], namespaces: Mapping[str, str]) -> list[int]:
        """Return the numbers in order."""
        return [self.add(text, namespaces) for text in queries]

    def add(self, text: str, namespaces: Mapping[str, str]) -> int:
        """Return the subscription's number."""
        client = f"client-{self._added // _QUERIES_OF_A_CLIENT}"
        self._added += 1
        number: int = self._matcher.subscribe(_EVERYWHERE, parse_query(text, namespaces), client)
        return number

    def remove(self, number: int) -> None:
        self._matcher.unsubscribe(number)

    def match(self, documents: Sequence[bytes]) -> Matched:
        """Match in batches.

        Raises `BenchmarkFailed` if an event is not accepted, or a query was suspended.
        """
        before = self.statistics()
        matches = sum(len(numbers) for numbers in self.match_each(documents))
        if suspended := self._matcher.take_suspended():
            raise BenchmarkFailed(f"a query was suspended: {suspended[0][1]}")
        after = self.statistics()
        run = int(after["evaluations"] - before["evaluations"])
        if "parsed" not in after:
            # This engine parses every document.
            return Matched(matches, run, len(documents))
        parsed = int(after["parsed"] - before["parsed"])
        return Matched(matches, run, parsed, int(after["unready_shapes"]))

    def match_each(self, documents: Sequence[bytes]) -> Iterator[tuple[int, ...]]:
        """Yield the subscriptions that each event matches."""
        start = 0
        while start < len(documents):
            verdicts = self._matcher.match(
                documents[start : start + BATCH], SLICE_SECONDS, self._variants
            )
            for verdict in verdicts:
                if not isinstance(verdict, Accepted):
                    raise BenchmarkFailed(f"an event was not accepted: {verdict}")
                yield verdict.subscriptions
            start += len(verdicts)

    def statistics(self) -> dict[str, int | float]:
        statistics: dict[str, int | float] = self._matcher.statistics()
        return statistics
