"""Growth of a node's memory over a million events, and memory of an idle node."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, Final

from benchmarks.harness.actor import Actor
from benchmarks.harness.context import BenchmarkContext
from benchmarks.harness.flow import FlowRunner
from benchmarks.harness.node_process import NodeProcess
from benchmarks.harness.report import Floor, Report, Sheet, format_number
from benchmarks.harness.usage import Memory, memory

DESCRIPTION: Final = "memory over a million events; an idle node's memory and time to start"

FLOOR_IDLE_MB: Final = 100.0
FLOOR_START: Final = 1.0
#: Bound: MB over a million events, at most eight bytes an event.
FLOOR_GROWTH_MB: Final = 8.0
EVENTS: Final = 1_000_000
SAMPLES: Final = 100
STARTS: Final = 5
#: At the end, for the slope.
_SETTLED: Final = 0.8
#: The log is full before the slope counts.
_CONFIGURATION: Final = '[log]\nmax_bytes = "128 MiB"\n'
_BATCH: Final = 500


def run(context: BenchmarkContext) -> Report:
    starts, idle = _measure_idle(context, 1 if context.quick else STARTS)
    events, samples = (20_000, 10) if context.quick else (EVENTS, SAMPLES)
    portions = [events // samples] * samples
    with context.empty_folder() as folder:
        node = NodeProcess(context.children, folder, _CONFIGURATION)
        task: dict[str, Any] = {"endpoint": node.endpoint, "portions": portions}
        runner = FlowRunner(
            node.pid,
            Actor(context.children, "publish_prebuilt", {**task, "batch": _BATCH}),
            Actor(context.children, "subscribe", {**task, "subscribers": 1}),
            subscribers=1,
        )
        sampled: list[tuple[int, Memory]] = []
        most = dropped = sent = 0
        for count in portions:
            flow = runner.run(count)
            sent += count
            most, dropped = max(most, flow.resident), dropped + flow.dropped
            sampled.append((sent, memory(node.pid)))
            context.report_progress(
                f"{sent:,} of {events:,} events, {format_number(sampled[-1][1].resident / 1e6)} MB"
            )
        runner.stop()
        node.stop()
    return _report(starts, idle, sampled, most, dropped)


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the slope by least squares."""
    return statistics.linear_regression(*zip(*points, strict=True)).slope


def _measure_idle(context: BenchmarkContext, count: int) -> tuple[list[float], list[Memory]]:
    starts, idle = [], []
    for index in range(count):
        context.report_progress(f"start {index + 1} of {count}")
        with context.empty_folder() as folder:
            node = NodeProcess(context.children, folder)
            starts.append(node.startup)
            idle.append(memory(node.pid))
            node.stop()
    return starts, idle


def _report(
    starts: list[float],
    idle: list[Memory],
    sampled: list[tuple[int, Memory]],
    most: int,
    dropped: int,
) -> Report:
    settled = sampled[-round(len(sampled) * _SETTLED) :]
    rows, growths = [], {}
    for name in ("resident", "anonymous"):
        megabytes = [getattr(found, name) / 1e6 for _, found in sampled]
        # Bytes an event equal megabytes a million events.
        growths[name] = slope([(sent, getattr(found, name)) for sent, found in settled])
        rows.append(
            [
                {"resident": "RSS", "anonymous": "RssAnon"}[name],
                format_number(statistics.median(getattr(found, name) for found in idle) / 1e6),
                format_number(megabytes[0]),
                format_number(megabytes[-len(settled)]),
                format_number(megabytes[-1]),
                format_number(max(megabytes)),
                f"{growths[name]:+.2f}",
            ]
        )
    start = statistics.median(starts)
    resident = statistics.median(found.resident for found in idle) / 1e6
    return Report(
        name="memory",
        sheets=[
            Sheet(
                f"A node's memory over {sampled[-1][0]:,} events, in MB",
                [
                    *("", "idle", "first sample", f"after {1 - _SETTLED:.0%}", "last", "most"),
                    f"growth per million events, last {_SETTLED:.0%}",
                ],
                rows,
            )
        ],
        floors=[
            Floor("idle node, RSS", resident, FLOOR_IDLE_MB, "MB", at_least=False),
            Floor("from exec to listening", start, FLOOR_START, "s", at_least=False),
            Floor(
                "RssAnon, growth over a million events",
                growths["anonymous"],
                FLOOR_GROWTH_MB,
                "MB",
                at_least=False,
            ),
            Floor(
                "RSS, growth over a million events",
                growths["resident"],
                FLOOR_GROWTH_MB,
                "MB",
                at_least=False,
            ),
        ],
        notes=[
            "distinct 262-byte flights, prebuilt, one subscriber of everything; the log holds "
            f"128 MiB, and its pages that are in memory count as RSS; {len(sampled)} samples, each "
            f"at rest; most in a run {format_number(most / 1e6)} MB; {dropped} events dropped",
            f"idle: median of {len(idle)} fresh nodes; start {min(starts):.2f}-{max(starts):.2f} s",
        ],
        figures={
            "start_seconds": starts,
            "idle": [{"resident": m.resident, "anonymous": m.anonymous} for m in idle],
            "samples": [
                {"events": sent, "resident": m.resident, "anonymous": m.anonymous}
                for sent, m in sampled
            ],
            "most_resident": most,
            "dropped": dropped,
            "growth_bytes_per_event": growths,
        },
        draw=lambda figure: _draw(sampled, figure),
    )


def _draw(sampled: list[tuple[int, Memory]], figure: Any) -> None:
    axes = figure.subplots()
    sent = [count for count, _ in sampled]
    axes.plot(sent, [found.resident / 1e6 for _, found in sampled], label="RSS")
    axes.plot(sent, [found.anonymous / 1e6 for _, found in sampled], label="RssAnon")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("events")
    axes.set_ylabel("MB")
    axes.legend()
