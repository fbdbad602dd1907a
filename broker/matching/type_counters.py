"""What each event type has cost: how its events were answered, and how long that took."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from broker.dtd.reference import DtdReference
from broker.event.envelope import Header
from broker.matching.contract import Accepted, Refused, TypeCounters, Verdict
from broker.matching.shape.type_learner import TypeStatistics

#: Types with figures of their own; those of any further type are counted without a name.
MAX_TYPES: Final = 256


@attrs.define
class _Counters:
    recognised: int = 0
    parsed: int = 0
    refused: int = 0
    undecided: int = 0
    recognised_seconds: float = 0.0
    undecided_seconds: float = 0.0
    parsed_seconds: float = 0.0


class CountersByType:
    """Counts by type and version; every call is for several events, or for a dear one."""

    def __init__(self) -> None:
        self._types: dict[tuple[str, str], _Counters] = {}
        self.recognition_seconds = 0.0
        """Spent on finding the shapes of all documents."""

    def count_recognised(self, reference: DtdReference, events: int, seconds: float) -> None:
        """A shape's events of one batch were answered."""
        counts = self._types.get((reference.type, reference.version))
        if counts is None:
            counts = self._counters_of(reference.type, reference.version)
        counts.recognised += events
        counts.recognised_seconds += seconds

    def count_undecided(self, header: Header, queries: int, seconds: float) -> None:
        """Queries were evaluated on one event beside what `recognised` counted."""
        counts = self._counters_of(header.type_name, header.version)
        counts.undecided += queries
        counts.undecided_seconds += seconds
        counts.recognised_seconds += seconds

    def count_parsed(
        self, verdict: Verdict, known_type: Callable[[], DtdReference | None], seconds: float
    ) -> None:
        """An event was parsed; `known_type` gives its type if there is a DTD of it."""
        if isinstance(verdict, Accepted):
            counts = self._counters_of(verdict.header.type_name, verdict.header.version)
            counts.parsed += 1
            counts.parsed_seconds += seconds
        elif isinstance(verdict, Refused):
            known = known_type()
            counts = (
                self._counters_of("", "")
                if known is None
                else self._counters_of(known.type, known.version)
            )
            counts.refused += 1
            counts.parsed_seconds += seconds

    def snapshot(
        self, shapes: dict[DtdReference, TypeStatistics] | None = None
    ) -> tuple[TypeCounters, ...]:
        """The figures of each type, sorted; `shapes` is what the shape cache says of types."""
        now = {(each.type, each.version): kind for each, kind in (shapes or {}).items()}
        told = []
        for (name, version), counts in sorted(self._types.items()):
            kind = now.get((name, version))
            told.append(
                TypeCounters(
                    type=name,
                    version=version,
                    shapes=0 if kind is None else kind.shapes,
                    suspended=kind is not None and kind.suspended,
                    **attrs.asdict(counts),
                )
            )
        return tuple(told)

    def _counters_of(self, type_name: str, version: str) -> _Counters:
        counts = self._types.get((type_name, version))
        if counts is None:
            if len(self._types) >= MAX_TYPES:
                return self._types.setdefault(("", ""), _Counters())
            counts = self._types[type_name, version] = _Counters()
        return counts
