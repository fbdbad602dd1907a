"""Processor time for an event, read from a benchmark's JSON file."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from benchmarks.archive_report import RECOVERY

#: Work, and microseconds.
Cost = tuple[str, float]


def _node(figures: Any) -> Iterator[Cost]:
    for work in figures["works"]:
        if work["name"].startswith("node"):
            label = f"{work['name']} 1->{work['subscribers']}, {work['queries']} queries"
            for run in work["runs"]:
                yield label, run["microseconds_per_event"]


def _latency(figures: Any) -> Iterator[Cost]:
    yield "node", 1e6 * figures["node_cpu_seconds"] / figures["published"]


def _line(figures: Any) -> Iterator[Cost]:
    for run in figures["runs"]:
        yield run["work"], 1e6 * sum(run["cpu"]) / run["events"]


def _ingest(figures: Any) -> Iterator[Cost]:
    for run in figures["runs"]:
        archived = run["archived"]
        label = f"1->{run['subscribers']}, archive {'off' if archived is None else 'on'}"
        yield f"{label}: node", run["microseconds_per_event"]
        if archived is not None:
            archiver = 1e6 * archived["cpu"] / archived["events"]
            yield f"{label}: archiver", archiver
            yield f"{label}: both", run["microseconds_per_event"] + archiver


def _archive(figures: Any) -> Iterator[Cost]:
    for each in figures["measured"]:
        yield f"{each['workload']}, zstd {each['level']}", each["micros"]
    for each in figures["cold"]:
        if each["what"] == RECOVERY:
            yield f"{each['workload']}, {RECOVERY}", 1e6 * each["cpu"] / each["events"]


def _links(figures: Any) -> Iterator[Cost]:
    for run in figures["runs"]:
        if run["kind"] == "udp":
            label = f"udp, {run['size']} bytes, {run['loss']:.0%} lost"
            yield label, run["sending"] + run["receiving"]


#: In the order of comparison.
READERS: Final[Mapping[str, Callable[[Any], Iterator[Cost]]]] = {
    "node": _node,
    "latency": _latency,
    "line": _line,
    "ingest": _ingest,
    "archive": _archive,
    "links": _links,
}


def costs(name: str, figures: Any) -> dict[str, list[float]]:
    """Return microseconds for an event, by work."""
    found: dict[str, list[float]] = {}
    for work, cost in READERS[name](figures):
        found.setdefault(work, []).append(cost)
    return found


def ratio(earlier: list[float], present: list[float]) -> float:
    """Return the ratio of the medians."""
    return statistics.median(present) / statistics.median(earlier)
