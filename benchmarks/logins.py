"""Logins of many clients at once by secret, beside a publisher and a subscriber."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from statistics import median
from typing import Any, Final

import attrs

from benchmarks.harness.actor import Actor
from benchmarks.harness.context import BenchmarkContext
from benchmarks.harness.flow import TIMEOUT
from benchmarks.harness.node_process import NodeProcess
from benchmarks.harness.report import Floor, Report, Sheet, format_number
from benchmarks.harness.usage import cpu_seconds
from benchmarks.latency import percentile
from broker.identity.secret import hash_secret

DESCRIPTION: Final = "1,000 clients that log in at once, and the latency of others meanwhile"

CLIENTS: Final = 1_000
#: Events a second of the others.
RATE: Final = 200
SECONDS: Final = 10
#: Of the node's processor time for all logins.
MOST_CPU: Final = 5.0
#: By which the 99th percentile of the others may grow.
MOST_GROWTH: Final = 2.0
_SECRET: Final = "a secret of the benchmark"
_ROUNDS: Final = 5
#: Of the clients' process, and of the busy one: clients would be on other machines.
_LOW_PRIORITY: Final = ("nice", "-n", "19")
_SPIN: Final = "while True: pass"
_CONFIGURATION: Final = """
[limits]
max_sessions = 1100
max_sessions_per_account = 1100
max_handshakes_per_address = 1100
max_handshakes = 1100

[accounts.bench]
secret = "{hash}"
client_ids = ["*"]
publish = [">"]
subscribe = [">"]
"""


@attrs.frozen
class Run:
    clients: int
    seconds: float
    """Until the last client had its session."""
    quiet_cpu: float
    """Processor seconds of the node for the others, beside a process that fills one core."""
    cpu: float
    """Processor seconds of the node for the others and the logins."""
    quiet_ages: list[float]
    """Latencies of the others in ms, sorted."""
    ages: list[float]
    """The same during the logins."""


def run(context: BenchmarkContext) -> Report:
    clients, events = (50, 2 * RATE) if context.quick else (CLIENTS, SECONDS * RATE)
    rounds = 1 if context.quick else _ROUNDS
    return report([_measure(context, clients, events) for _ in range(rounds)])


def _measure(context: BenchmarkContext, clients: int, events: int) -> Run:
    counts = [RATE, events, events]
    with context.empty_folder() as folder:
        configuration = _CONFIGURATION.format(hash=hash_secret(_SECRET))
        node = NodeProcess(context.children, folder, configuration)
        login = {"account": "bench", "secret": _SECRET}
        task: dict[str, Any] = {"endpoint": node.endpoint, "login": login, "portions": counts}
        subscriber = Actor(context.children, "subscribe_timed", {**task, "query": "true()"})
        publisher = Actor(context.children, "publish_paced", {**task, "rate": RATE})
        crowd = Actor(
            context.children,
            "log_in",
            {"endpoint": node.endpoint, "clients": clients, **login},
            prefix=_LOW_PRIORITY,
        )
        crowd.wait_for("ready", TIMEOUT, node.check)
        cpus, ages, seconds = [], [], 0.0
        for index, count in enumerate(counts):
            is_crowded = index == len(counts) - 1
            for each in (subscriber, publisher):
                each.wait_for("ready", TIMEOUT, node.check)
            context.report_progress(f"{count:,} events, {clients if is_crowded else 0:,} logins")
            cpu = cpu_seconds(node.pid)
            subscriber.start_run()
            publisher.start_run()
            # The process of the clients fills a core too, which is not the node's work.
            spin = [*_LOW_PRIORITY, sys.executable, "-c", _SPIN]
            spinner = None if is_crowded else context.children.start(spin)
            if is_crowded:
                crowd.start_run()
            publisher.wait_for("done", TIMEOUT, node.check)
            came = subscriber.wait_for("done", TIMEOUT, node.check)
            if is_crowded:
                seconds = crowd.wait_for("done", TIMEOUT, node.check)["seconds"]
            if spinner is not None:
                context.children.stop(spinner)
            cpus.append(cpu_seconds(node.pid) - cpu)
            ages.append(sorted(age / 1e6 for _, age in came["ages"]))
        for actor in (crowd, subscriber, publisher):
            actor.stop()
        node.stop()
    return Run(clients, seconds, cpus[1], cpus[2], ages[1], ages[2])


def report(runs: Sequence[Run]) -> Report:
    """The floors are of the medians, since one pause of the machine decides a 99th percentile."""
    rows = [
        (
            name,
            str(logins),
            f"{cpu:.2f}",
            *(f"{percentile(ages, share):.2f}" for share in (0.5, 0.99)),
        )
        for run in runs
        for name, logins, cpu, ages in (
            ("beside a busy core", 0, run.quiet_cpu, run.quiet_ages),
            ("beside the logins", run.clients, run.cpu, run.ages),
        )
    ]
    cpu = median(run.cpu for run in runs)
    quiet = median(percentile(run.quiet_ages, 0.99) for run in runs)
    beside = median(percentile(run.ages, 0.99) for run in runs)
    clients, seconds = runs[0].clients, median(run.seconds for run in runs)
    return Report(
        name="logins",
        sheets=[
            Sheet(
                f"One publisher and one subscriber at {RATE} events/s",
                ("run", "logins", "node's CPU s", "p50 ms", "p99 ms"),
                rows,
            )
        ],
        floors=[
            Floor("node's CPU beside the logins", cpu, MOST_CPU, "s", at_least=False),
            Floor("p99 beside the logins", beside / quiet, MOST_GROWTH, "times", at_least=False),
        ],
        notes=[
            f"the last of {clients:,} clients had its session after {format_number(seconds)} s; "
            "all are in one process and share the hash of the secret, so that only the node's "
            "work and the messages count",
            f"{beside:.2f} ms to {quiet:.2f} ms: medians of {len(runs)} runs",
        ],
        figures={
            "clients": clients,
            "seconds": seconds,
            "node_cpu_seconds": cpu,
            "p99_quiet_ms": quiet,
            "p99_ms": beside,
        },
        draw=lambda figure: _draw(runs[0], figure),
    )


def _draw(run: Run, figure: Any) -> None:
    axes = figure.subplots()
    for name, ages in (("beside a busy core", run.quiet_ages), ("beside the logins", run.ages)):
        axes.plot(ages, [1 - rank / len(ages) for rank in range(len(ages))], label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("latency in ms")
    axes.set_ylabel("share of events that took longer")
    axes.legend()
