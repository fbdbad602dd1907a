"""How much of everything is measured, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from benchmarks.routing.changes import Changes
from benchmarks.routing.rounds import Cost


@attrs.frozen
class Plan:
    """How much of everything is measured."""

    engine: str
    queries: Sequence[int]
    """Numbers of queries of the standard mix, side by side; to the last, some are added."""
    compared: int
    """One of these numbers: queries that are also run one by one, of the harder mix, and of NITF
    at most."""
    documents: int
    """Of flights and of VOEvents, over all rounds."""
    news: int
    """NITF documents over all rounds."""
    rounds: int
    sample: int
    """Events of each round on which all queries are run one by one."""
    agreeing: int
    """Events on which each engine must say what lxml says."""
    changes: int
    packets: int | None
    """VOEvents that the process sees whose memory is measured; None: all there are."""
    oracle: int = 100
    """Queries of the reference engine, which runs each on every event."""


@attrs.frozen
class OneByOneCost:
    """The same queries by an engine and one by one, in the same rounds."""

    engine: Cost
    alone: Cost

    @property
    def ratio(self) -> float:
        """How many times dearer one by one is."""
        return self.alone.median / self.engine.median


@attrs.define
class Findings:
    """Everything that was measured."""

    plan: Plan
    costs: list[Cost] = attrs.field(factory=list)
    one_by_one: list[OneByOneCost] = attrs.field(factory=list)
    changes: list[Changes] = attrs.field(factory=list)
    agreed: dict[str, int] = attrs.field(factory=dict)
    """Matches of the sample that both engine and lxml found, by what was compared."""
    held: dict[str, Any] | None = None
    """What the process with most queries reported of its memory; see `actors.hold_queries`."""
    sizes: dict[str, float] = attrs.field(factory=dict)
    """Bytes of a document of each workload, on average."""
    missing: list[str] = attrs.field(factory=list)
    """Why workloads were left out."""

    def cost(self, workload: str, queries: int) -> Cost | None:
        """What that many queries of the standard mix cost the engine under test."""
        label = label_of(queries)
        return next((c for c in self.costs if (c.workload, c.label) == (workload, label)), None)


def label_of(queries: int) -> str:
    """As tables name the engine under test with so many queries of the standard mix."""
    return f"{queries:,} queries"
