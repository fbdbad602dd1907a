"""What content routing costs an event, against nothing but parsing it."""

from __future__ import annotations

from typing import Final

from benchmarks.content_report import report
from benchmarks.harness.lab import Lab
from benchmarks.harness.report import Report
from benchmarks.routing.engine import ENGINE
from benchmarks.routing.findings import Plan
from benchmarks.routing.measuring import measured

DESCRIPTION: Final = "an event against up to 100,000 queries, compared with parsing it once"

FULL: Final = Plan(
    engine=ENGINE,
    queries=(1_000, 10_000, 100_000),
    compared=10_000,
    documents=14_000,
    news=640,
    rounds=14,
    sample=3,
    agreeing=4,
    changes=500,
    packets=None,
)
QUICK: Final = Plan(
    engine=ENGINE,
    queries=(100, 500),
    compared=500,
    documents=300,
    news=60,
    rounds=2,
    sample=2,
    agreeing=2,
    changes=50,
    packets=300,
)


def run(lab: Lab) -> Report:
    """All workloads; the report says which were left out, and why."""
    return report(measured(lab, QUICK if lab.quick else FULL))
