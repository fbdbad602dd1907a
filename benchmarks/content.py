"""Cost of content routing for an event, against a bare parse."""

from __future__ import annotations

from typing import Final

from benchmarks.content_report import report
from benchmarks.harness.context import BenchmarkContext
from benchmarks.harness.report import Report
from benchmarks.routing.content_measurement import measure_content
from benchmarks.routing.engine import ENGINE
from benchmarks.routing.findings import Plan

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


def run(context: BenchmarkContext) -> Report:
    return report(measure_content(context, QUICK if context.quick else FULL))
