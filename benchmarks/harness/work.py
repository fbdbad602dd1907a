"""One thing that is measured of a broker: all its runs, on one process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from benchmarks.harness.flow import Flow, Spread, as_json


@attrs.frozen
class Further:
    """Subscriptions besides, which match few of the events, over all runs and the warm-up."""

    queries: int
    published: int
    """Events that they might have matched."""
    delivered: int
    dropped: int = 0
    """Events that they were told they did not get."""


@attrs.frozen
class Work:
    """All runs of one thing."""

    name: str
    subscribers: int
    """Of everything."""
    flows: Sequence[Flow]
    parses: Sequence[float]
    """What lxml took to parse one event, in microseconds, after each run."""
    events_a_commit: float | None = None
    beside: Further | None = None

    @property
    def queries(self) -> int:
        """Besides those of the subscribers of everything."""
        return 0 if self.beside is None else self.beside.queries

    @property
    def label(self) -> str:
        """As tables name it."""
        besides = f", {self.queries:,} queries" if self.queries else ""
        return f"{self.name} 1->{self.subscribers}{besides}"

    def spread(self, name: str) -> Spread:
        """Of a figure of `Flow`, by its name."""
        return Spread.of(self.flows, lambda flow: float(getattr(flow, name)))

    @property
    def dropped(self) -> int:
        """Events that did not reach every subscriber, over all runs."""
        return sum(flow.dropped for flow in self.flows)

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return {
            "name": self.name,
            "subscribers": self.subscribers,
            "queries": self.queries,
            "beside": None if self.beside is None else attrs.asdict(self.beside),
            "events_a_commit": self.events_a_commit,
            "parse_microseconds": self.parses,
            "runs": [as_json(flow) for flow in self.flows],
        }
