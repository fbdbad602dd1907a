"""Counters and times by event type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import attrs

from broker.dtd.reference import DtdReference
from broker.event.envelope import Header
from broker.matching.contract import Accepted, Refused, TypeCounters, Verdict
from broker.matching.shape.type_learner import TypeLearner

#: Types with own counters. Further types share counters without a name.
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
    """Counters by type and version, updated once per batch or per parsed event."""

    def __init__(self) -> None:
        self._types: dict[tuple[str, str], _Counters] = {}
        self.recognition_seconds = 0.0

    def count_recognised(self, reference: DtdReference, events: int, seconds: float) -> None:
        counters = self._types.get((reference.type, reference.version))
        if counters is None:
            counters = self._counters_of(reference.type, reference.version)
        counters.recognised += events
        counters.recognised_seconds += seconds

    def count_undecided(self, header: Header, queries: int, seconds: float) -> None:
        counters = self._counters_of(header.type_name, header.version)
        counters.undecided += queries
        counters.undecided_seconds += seconds
        counters.recognised_seconds += seconds

    def count_parsed(
        self, verdict: Verdict, known_type: Callable[[], DtdReference | None], seconds: float
    ) -> None:
        """Count a parsed event. `known_type` returns its type if its DTD is in the cache."""
        if isinstance(verdict, Accepted):
            counters = self._counters_of(verdict.header.type_name, verdict.header.version)
            counters.parsed += 1
            counters.parsed_seconds += seconds
        elif isinstance(verdict, Refused):
            reference = known_type()
            counters = (
                self._counters_of("", "")
                if reference is None
                else self._counters_of(reference.type, reference.version)
            )
            counters.refused += 1
            counters.parsed_seconds += seconds

    def snapshot(
        self, learners: Mapping[DtdReference, TypeLearner] | None = None
    ) -> tuple[TypeCounters, ...]:
        """Return the counters by type, sorted. `learners` are those of the shape cache."""
        by_type = {(each.type, each.version): learner for each, learner in (learners or {}).items()}
        result = []
        for (name, version), counters in sorted(self._types.items()):
            learner = by_type.get((name, version))
            result.append(
                TypeCounters(
                    type=name,
                    version=version,
                    shapes=0 if learner is None else len(learner.shapes),
                    suspended=learner is not None and learner.is_suspended,
                    **attrs.asdict(counters),
                )
            )
        return tuple(result)

    def _counters_of(self, type_name: str, version: str) -> _Counters:
        counters = self._types.get((type_name, version))
        if counters is None:
            if len(self._types) >= MAX_TYPES:
                return self._types.setdefault(("", ""), _Counters())
            counters = self._types[type_name, version] = _Counters()
        return counters
