"""Measurements of one broker: all its runs, on one process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from benchmarks.harness.flow import Flow, Spread, as_json


@attrs.frozen
class ExtraQueries:
    """They match few events, over all runs and the warm-up."""

    queries: int
    published: int
    """Events that they might have matched."""
    delivered: int
    dropped: int = 0
    """Reported as dropped."""


@attrs.frozen
class Work:
    name: str
    subscribers: int
    """Of everything."""
    flows: Sequence[Flow]
    parses: Sequence[float]
    """Microseconds that lxml took to parse one event, after each run."""
    events_a_commit: float | None = None
    extra_queries: ExtraQueries | None = None

    @property
    def queries(self) -> int:
        return 0 if self.extra_queries is None else self.extra_queries.queries

    @property
    def label(self) -> str:
        besides = f", {self.queries:,} queries" if self.queries else ""
        return f"{self.name} 1->{self.subscribers}{besides}"

    def spread(self, name: str) -> Spread:
        """`name` is a figure of `Flow`."""
        return Spread.of(self.flows, lambda flow: float(getattr(flow, name)))

    @property
    def dropped(self) -> int:
        """Dropped events over all runs."""
        return sum(flow.dropped for flow in self.flows)

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "subscribers": self.subscribers,
            "queries": self.queries,
            "beside": None if self.extra_queries is None else attrs.asdict(self.extra_queries),
            "events_a_commit": self.events_a_commit,
            "parse_microseconds": self.parses,
            "runs": [as_json(flow) for flow in self.flows],
        }
