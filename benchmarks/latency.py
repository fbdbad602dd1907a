"""Latency from publisher to subscriber at a steady, moderate rate, one event at a time."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from benchmarks.harness import mosquitto, nats_process
from benchmarks.harness.actor import Actor
from benchmarks.harness.context import BenchmarkContext
from benchmarks.harness.debian import Unavailable
from benchmarks.harness.flights import HIGH, is_high
from benchmarks.harness.flow import TIMEOUT
from benchmarks.harness.node_process import NodeProcess
from benchmarks.harness.report import Floor, Report, Sheet, format_number
from benchmarks.harness.usage import busy_seconds, cpu_seconds

DESCRIPTION: Final = "end-to-end latency at 1,000 events a second, quiet and beside a busy core"

RATE: Final = 1_000
SECONDS: Final = 20
_SHARES: Final = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999))
_SPIN: Final = "while True: pass"


@attrs.frozen
class Run:
    system: str
    published: int
    ages: list[tuple[int, int]]
    """Due time and age on arrival of each event, in ns."""
    late: float
    """Seconds by which the latest event left its publisher too late; they count as latency."""
    cpu: float
    """Processor seconds of the broker."""
    others: float
    """Processor seconds of processes that do not belong to the run."""

    @property
    def milliseconds(self) -> dict[str, float]:
        ordered = sorted(age / 1e6 for _, age in self.ages)
        found = {name: percentile(ordered, share) for name, share in _SHARES}
        return {**found, "max": ordered[-1]}

    @property
    def cpu_per_event(self) -> float:
        """Microseconds for a published event."""
        return 1e6 * self.cpu / self.published


def run(context: BenchmarkContext) -> Report:
    """Measure a node, quiet and beside a process that fills one core, then the peers."""
    counts = [200, 500] if context.quick else [RATE, RATE * SECONDS]
    runs = [_run_node(context, "xmlbroker", counts)]
    spinner = context.children.start([sys.executable, "-c", _SPIN])
    try:
        runs.append(_run_node(context, "xmlbroker, one core busy", counts))
    finally:
        context.children.stop(spinner)
    notes = []
    for run_peer in (_run_jetstream, _run_mosquitto):
        try:
            runs.append(run_peer(context, counts))
        except Unavailable as reason:
            notes.append(f"a peer is missing: {reason}")
    return _report(runs, notes)


def _run_node(context: BenchmarkContext, system: str, counts: list[int]) -> Run:
    with context.empty_folder() as folder:
        node = NodeProcess(context.children, folder)
        matching = [sum(map(is_high, range(count))) for count in counts]
        task = {"endpoint": node.endpoint}
        subscriber = Actor(
            context.children, "subscribe_timed", {**task, "query": HIGH, "portions": matching}
        )
        publisher = Actor(
            context.children, "publish_paced", {**task, "rate": RATE, "portions": counts}
        )
        run = _measure(context, system, counts, subscriber, publisher, node.pid, node.check)
        node.stop()
    return run


def _run_jetstream(context: BenchmarkContext, counts: list[int]) -> Run:
    program = nats_process.executable()
    always = nats_process.can_sync_always(program)
    sync = "sync always" if always else "no sync"
    system = f"NATS JetStream {nats_process.version(program)}, {sync}"

    def start(folder: Path) -> nats_process.NatsProcess:
        return nats_process.NatsProcess(context.children, program, folder, sync=True)

    return _run_peer(context, system, "nats", counts, start)


def _run_mosquitto(context: BenchmarkContext, counts: list[int]) -> Run:
    program = mosquitto.executable()
    system = f"mosquitto {mosquitto.version(program)}, QoS 1, in memory"

    def start(folder: Path) -> mosquitto.MosquittoProcess:
        return mosquitto.MosquittoProcess(context.children, program, folder)

    return _run_peer(context, system, "mqtt", counts, start)


def _run_peer(
    context: BenchmarkContext,
    system: str,
    name: str,
    counts: list[int],
    start: Callable[[Path], nats_process.NatsProcess | mosquitto.MosquittoProcess],
) -> Run:
    with context.empty_folder() as folder:
        peer = start(folder)
        task = {"peer": name, "port": peer.port, "portions": counts}
        publisher = Actor(context.children, "peer_publish_paced", {**task, "rate": RATE})
        # It creates the stream.
        publisher.wait_for("ready", TIMEOUT)
        subscriber = Actor(context.children, "peer_subscribe_timed", task)
        run = _measure(
            context, system, counts, subscriber, publisher, peer.pid, lambda: None, is_ready=True
        )
        peer.stop()
    return run


def _measure(
    context: BenchmarkContext,
    system: str,
    counts: list[int],
    subscriber: Actor,
    publisher: Actor,
    pid: int,
    check: Callable[[], None],
    *,
    is_ready: bool = False,
) -> Run:
    """The last portion counts. `is_ready`: the publisher has reported it already."""
    for count in counts:
        subscriber.wait_for("ready", TIMEOUT)
        if not is_ready:
            publisher.wait_for("ready", TIMEOUT)
        is_ready = False
        context.report_progress(f"{system}: {count:,} events at {RATE:,} a second")
        cpu, busy = cpu_seconds(pid), busy_seconds()
        subscriber.start_run()
        publisher.start_run()
        sent = publisher.wait_for("done", TIMEOUT, check)
        came = subscriber.wait_for("done", TIMEOUT, check)
        cpu, busy = cpu_seconds(pid) - cpu, busy_seconds() - busy
    subscriber.stop()
    publisher.stop()
    others = max(0.0, busy - cpu - sent["cpu"] - came["cpu"])
    return Run(system, counts[-1], came["ages"], sent["late"], cpu, others)


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the figure of nearest rank."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _report(runs: list[Run], notes: list[str]) -> Report:
    quiet, busy = runs[:2]
    seconds = quiet.published / RATE
    columns = ["system", "delivered", *quiet.milliseconds, "CPU us/event", "cores of others"]
    rows = [
        [
            each.system,
            format_number(len(each.ages)),
            *(f"{value:.2f}" for value in each.milliseconds.values()),
            format_number(each.cpu_per_event),
            f"{each.others / seconds:.2f}",
        ]
        for each in runs
    ]
    p50, p99 = quiet.milliseconds["p50"], quiet.milliseconds["p99"]
    return Report(
        name="latency",
        sheets=[Sheet(f"End to end, {RATE:,} events/s for {seconds:g} s, in ms", columns, rows)],
        floors=[
            Floor("CPU for an event", quiet.cpu_per_event, 300.0, "us", at_least=False),
            Floor("half of the events took", p50, 1.5, "ms", at_least=False),
            Floor("99% of the events took", p99, 5.0, "ms", at_least=False),
            Floor(
                "99% beside a busy core took", busy.milliseconds["p99"], 10.0, "ms", at_least=False
            ),
        ],
        notes=[
            "one publisher and one subscriber, each in its process; xmlbroker's use the client "
            f"library and the query {HIGH}, half of the events; the default configuration: every "
            "event is validated and on disk before it is delivered",
            "peers deliver every payload, without an envelope or a query",
            "from the moment an event was due until the subscriber's loop had it; the latest left "
            f"its publisher {1e3 * max(each.late for each in runs):.1f} ms after it was due, which "
            "counts",
            *notes,
        ],
        figures={
            "rate": RATE,
            "published": quiet.published,
            "delivered": len(quiet.ages),
            "milliseconds": quiet.milliseconds,
            "node_cpu_seconds": quiet.cpu,
            "runs": [
                {
                    "system": each.system,
                    "published": each.published,
                    "delivered": len(each.ages),
                    "milliseconds": each.milliseconds,
                    "publisher_late_seconds": each.late,
                    "cpu_seconds": each.cpu,
                    "others_cpu_seconds": each.others,
                }
                for each in runs
            ],
        },
        draw=lambda figure: _draw(runs, figure),
    )


def _draw(runs: list[Run], figure: Any) -> None:
    over_time, shares = figure.subplots(1, 2)
    began = runs[0].ages[0][0]
    over_time.plot(
        [(due - began) / 1e9 for due, _ in runs[0].ages],
        [age / 1e6 for _, age in runs[0].ages],
        ".",
        markersize=1,
    )
    over_time.set_xlabel("seconds")
    over_time.set_ylabel("latency in ms")
    for each in runs:
        ordered = sorted(age / 1e6 for _, age in each.ages)
        # Share of slower events.
        parts = [1 - rank / len(ordered) for rank in range(len(ordered))]
        shares.plot(ordered, parts, label=each.system)
    shares.set_yscale("log")
    shares.set_xscale("log")
    shares.set_xlabel("latency in ms")
    shares.set_ylabel("share of events that took longer")
    shares.legend()
