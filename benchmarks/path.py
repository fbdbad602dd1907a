"""One event's way through a node: the calls in `broker/`, counted by a profiler."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

from benchmarks.harness.actor import Actor
from benchmarks.harness.context import BenchmarkContext
from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.harness.flights import HIGH, is_high
from benchmarks.harness.flow import TIMEOUT
from benchmarks.harness.node_process import NodeProcess
from benchmarks.harness.report import Floor, Report, Sheet

DESCRIPTION: Final = "calls of functions for one event that comes alone"

#: Each event is alone in its batch and its commit.
RATE: Final = 50
EVENTS: Final = 1_000
#: Rarer calls belong to timers.
_SHARE: Final = 0.1
_GLANCE: Final = 0.01


def run(context: BenchmarkContext) -> Report:
    """Half of the events match one subscription."""
    count = 200 if context.quick else EVENTS
    with context.empty_folder() as folder:
        counts_file = folder / "counts.json"
        node = NodeProcess(
            context.children,
            folder,
            command=("-m", "benchmarks.harness.counted_node"),
            environment={"COUNTS_FILE": str(counts_file)},
        )
        task = {"endpoint": node.endpoint}
        counts = [100, count]
        matching = [sum(map(is_high, range(each))) for each in counts]
        subscriber = Actor(
            context.children, "subscribe_timed", {**task, "query": HIGH, "portions": matching}
        )
        publisher = Actor(
            context.children, "publish_paced", {**task, "rate": RATE, "portions": counts}
        )
        for each in counts:
            subscriber.wait_for("ready", TIMEOUT)
            publisher.wait_for("ready", TIMEOUT)
            context.report_progress(f"{each:,} events at {RATE} a second")
            os.kill(node.pid, signal.SIGUSR1)
            subscriber.start_run()
            publisher.start_run()
            publisher.wait_for("done", TIMEOUT, node.check)
            subscriber.wait_for("done", TIMEOUT, node.check)
        os.kill(node.pid, signal.SIGUSR2)
        rows = _read(counts_file)
        subscriber.stop()
        publisher.stop()
        node.stop()
    return _report(rows, count)


def _read(path: Path) -> list[tuple[str, str, str, int]]:
    deadline = time.monotonic() + TIMEOUT
    while not path.exists():
        if time.monotonic() > deadline:
            raise BenchmarkFailed("the node wrote no counts")
        time.sleep(_GLANCE)
    return [tuple(row) for row in json.loads(path.read_text())]


def _report(rows: list[tuple[str, str, str, int]], events: int) -> Report:
    usual = [row for row in rows if row[3] >= _SHARE * events]
    packages: Counter[tuple[str, str]] = Counter()
    for thread, module, _, calls in usual:
        packages[_thread(thread), module.partition("/")[0].removesuffix(".py")] += calls
    total = sum(packages.values()) / events
    functions = sorted(usual, key=lambda row: -row[3])
    return Report(
        name="path",
        sheets=[
            Sheet(
                f"Calls for an event, by package ({events:,} events)",
                ["thread", "package", "calls"],
                [
                    [thread, package, f"{calls / events:.1f}"]
                    for (thread, package), calls in sorted(packages.items())
                ],
            ),
            Sheet(
                "The functions",
                ["thread", "module", "function", "calls"],
                [
                    [_thread(thread), module, name, f"{calls / events:.2f}"]
                    for thread, module, name, calls in functions
                ],
            ),
        ],
        floors=[Floor("calls for an event", total, 60.0, "", at_least=False)],
        notes=[
            f"one publisher, one subscriber with {HIGH}, no TLS, {RATE} events/s: each event is "
            "alone in its batch; acknowledgements of the transport and credit are included",
        ],
        figures={
            "events": events,
            "calls": [
                {"thread": _thread(t), "module": m, "function": f, "calls": n / events}
                for t, m, f, n in functions
            ],
        },
        draw=lambda figure: _draw(packages, events, figure),
    )


def _draw(packages: Counter[tuple[str, str]], events: int, figure: Any) -> None:
    axes = figure.subplots()
    names = [f"{package} ({thread})" for thread, package in packages]
    axes.barh(names, [calls / events for calls in packages.values()])
    axes.set_xlabel("calls for an event")


def _thread(name: str) -> str:
    return "reactor" if name == "MainThread" else name
