"""Latency from publisher to subscriber at a steady, moderate rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from benchmarks.harness.actor import Actor
from benchmarks.harness.context import BenchmarkContext
from benchmarks.harness.flights import HIGH, is_high
from benchmarks.harness.flow import TIMEOUT
from benchmarks.harness.node_process import NodeProcess
from benchmarks.harness.report import Floor, Report, Sheet, format_number
from benchmarks.harness.usage import busy_seconds, cpu_seconds

DESCRIPTION: Final = "end-to-end latency at 1,000 events a second"

FLOOR_P99_MS: Final = 10.0
RATE: Final = 1_000
SECONDS: Final = 20
_COSTS: Final = ("node cores", "CPU us/event", "cores of others")
_SHARES: Final = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999))


def run(context: BenchmarkContext) -> Report:
    """Measure once, after a second of warm-up."""
    counts = [200, 500] if context.quick else [RATE, RATE * SECONDS]
    with context.empty_folder() as folder:
        node = NodeProcess(context.children, folder)
        matching = [sum(map(is_high, range(count))) for count in counts]
        subscriber = Actor(
            context.children,
            "subscribe_timed",
            {"endpoint": node.endpoint, "query": HIGH, "portions": matching},
        )
        publisher = Actor(
            context.children,
            "publish_paced",
            {"endpoint": node.endpoint, "rate": RATE, "portions": counts},
        )
        for count in counts:
            subscriber.wait_for("ready", TIMEOUT)
            publisher.wait_for("ready", TIMEOUT)
            context.report_progress(f"{count:,} events at {RATE:,} a second")
            cpu, busy = cpu_seconds(node.pid), busy_seconds()
            subscriber.start_run()
            publisher.start_run()
            sent = publisher.wait_for("done", TIMEOUT, node.check)
            came = subscriber.wait_for("done", TIMEOUT, node.check)
            cpu, busy = cpu_seconds(node.pid) - cpu, busy_seconds() - busy
        subscriber.stop()
        publisher.stop()
        node.stop()
    others = max(0.0, busy - cpu - sent["cpu"] - came["cpu"])
    return _report(counts[-1], came["ages"], sent["late"], cpu, others)


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest figure that `share` of the figures do not exceed (nearest rank)."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _report(
    events: int, ages: list[tuple[int, int]], late: float, cpu: float, others: float
) -> Report:
    ordered = sorted(age / 1e6 for _, age in ages)
    found = {name: percentile(ordered, share) for name, share in _SHARES}
    found["max"] = ordered[-1]
    seconds = events / RATE
    return Report(
        name="latency",
        sheets=[
            Sheet(
                f"End to end, {RATE:,} events/s for {seconds:g} s, in ms",
                ["query", "published", "delivered", *found, *_COSTS],
                [
                    [
                        HIGH,
                        format_number(events),
                        format_number(len(ages)),
                        *(f"{value:.2f}" for value in found.values()),
                        f"{cpu / seconds:.2f}",
                        format_number(1e6 * cpu / events),
                        f"{others / seconds:.2f}",
                    ]
                ],
            )
        ],
        floors=[Floor("99% of the events took", found["p99"], FLOOR_P99_MS, "ms", at_least=False)],
        notes=[
            "one publisher and one subscriber, both by the client library, each in its process; "
            "default configuration: every event is validated and on disk before it is delivered",
            "from the moment an event was due until the subscriber's loop had it; the latest left "
            f"its publisher {1e3 * late:.1f} ms after it was due, which counts",
        ],
        figures={
            "rate": RATE,
            "published": events,
            "delivered": len(ages),
            "milliseconds": found,
            "publisher_late_seconds": late,
            "node_cpu_seconds": cpu,
            "others_cpu_seconds": others,
        },
        draw=lambda figure: _draw(ages, found, figure),
    )


def _draw(ages: list[tuple[int, int]], found: dict[str, float], figure: Any) -> None:
    over_time, shares = figure.subplots(1, 2)
    began = ages[0][0]
    over_time.plot(
        [(due - began) / 1e9 for due, _ in ages], [age / 1e6 for _, age in ages], ".", markersize=1
    )
    over_time.set_xlabel("seconds")
    over_time.set_ylabel("latency in ms")
    ordered = sorted(age / 1e6 for _, age in ages)
    # From the top: the share of events that took longer, down to a single one.
    shares.plot(ordered, [1 - rank / len(ordered) for rank in range(len(ordered))])
    shares.set_yscale("log")
    shares.set_xscale("log")
    shares.axvline(FLOOR_P99_MS, color="tab:red", linestyle="--", label="bound of p99")
    shares.plot([found["p99"]], [0.01], "o", color="tab:red", label="p99")
    shares.set_xlabel("latency in ms")
    shares.set_ylabel("share of events that took longer")
    shares.legend()
