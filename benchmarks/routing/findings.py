"""Plan and results of the benchmark `content`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from benchmarks.routing.changes import Changes
from benchmarks.routing.rounds import Cost


@attrs.frozen
class Plan:
    """Numbers of queries, documents and rounds."""

    engine: str
    queries: Sequence[int]
    """Of the standard mix; the last one also gets changes."""
    compared: int
    """One of these numbers: queries that are also run one by one, queries of the harder mix, and
    most queries on NITF."""
    documents: int
    """Flights, and VOEvents, over all rounds."""
    news: int
    """NITF documents over all rounds."""
    rounds: int
    sample: int
    """Events of each round on which all queries run one by one."""
    agreeing: int
    """Events on which each engine is compared with lxml."""
    changes: int
    packets: int | None
    """VOEvents in the process whose memory is measured; None: all."""
    oracle: int = 100
    """Queries of the reference engine, which runs each on every event."""


@attrs.frozen
class OneByOneCost:
    """The same queries by an engine and one by one, in the same rounds."""

    engine: Cost
    alone: Cost

    @property
    def ratio(self) -> float:
        return self.alone.median / self.engine.median


@attrs.define
class Findings:
    plan: Plan
    costs: list[Cost] = attrs.field(factory=list)
    one_by_one: list[OneByOneCost] = attrs.field(factory=list)
    changes: list[Changes] = attrs.field(factory=list)
    agreed: dict[str, int] = attrs.field(factory=dict)
    """Matches of the sample found by both engine and lxml, by comparison."""
    memory_report: dict[str, Any] | None = None
    """Of the process with most queries; see `actors.hold_queries`."""
    sizes: dict[str, float] = attrs.field(factory=dict)
    """Average bytes of a document, by workload."""
    missing: list[str] = attrs.field(factory=list)
    """Reasons for omitted workloads."""

    def cost(self, workload: str, queries: int) -> Cost | None:
        """Return the cost of queries of the standard mix."""
        label = query_label(queries)
        return next((c for c in self.costs if (c.workload, c.label) == (workload, label)), None)


def query_label(queries: int) -> str:
    return f"{queries:,} queries"
