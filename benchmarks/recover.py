"""Recovery of missed events by returning clients, timed at the clients.

Events of a lost origin lie in an archive, and a node that never had them serves it. Each event
matches one query, so any number of clients gets the same events together.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

from benchmarks.harness.actor import Actor
from benchmarks.harness.context import BenchmarkContext
from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.harness.flow import TIMEOUT
from benchmarks.harness.node_process import NodeProcess
from benchmarks.harness.node_status import read_status
from benchmarks.harness.report import Report
from benchmarks.harness.speed import measure_parse
from benchmarks.recover_report import LOG, Cold, Recovery, report
from benchmarks.workloads.archived_flights import ORIGIN, write_flights
from broker.errors import EngineUnavailable
from broker.replay.engine.spark_session import check_java

DESCRIPTION: Final = (
    "clients that come back: cold, to few and many events, one and a thousand of them"
)

EVENTS: Final = 1_000_000
QUICK_EVENTS: Final = 20_000
#: By one client.
MISSED: Final = (10, 1_000, 100_000)
CLIENTS: Final = (1, 100, 1_000)
#: The median counts. The cold recovery has started everything before.
RUNS: Final = 3
#: Events in a PUBLISH message.
BATCH: Final = 500
#: In seconds.
RECOVERY_TIMEOUT: Final = 1_800.0
#: With one poll of the replay process, in seconds.
_LOOKED: Final = 2.0
#: For a thousand clients and status requests; closed ones end at once.
LIMITS_TOML: Final = "[limits]\nmax_sessions = 1100\nsession_lease = 0.0\n"


def run(context: BenchmarkContext) -> Report:
    count = context.events or (QUICK_EVENTS if context.quick else EVENTS)
    returns = _measure_log(context, count)
    cold = []
    missing = spark_problem()
    with context.empty_folder() as folder:
        archive = folder / "archive"
        write_flights(
            str(archive), count, lambda done: context.report_progress(f"{done} events archived")
        )
        for engine in ("local", "spark"):
            if engine == "spark" and missing:
                continue
            began, came = _measure_engine(context, engine, archive, count)
            cold.append(began)
            returns += came
    return report(count, cold, returns, missing)


def spark_problem() -> str:
    """Return the reason; empty if Spark can run here."""
    try:
        check_java()
    except EngineUnavailable as error:
        return str(error)
    return ""


def missed_counts(count: int) -> list[int]:
    """Return the numbers, limited to the available events."""
    return list(dict.fromkeys(min(each, count) for each in MISSED))


# ------------------------------------------------------------------ from the log


def _measure_log(context: BenchmarkContext, count: int) -> list[Recovery]:
    """Measure a node that has published all events itself, without an archive."""
    sizes = missed_counts(count)
    with context.empty_folder() as folder:
        node = NodeProcess(context.children, folder, f"{LIMITS_TOML}[archive]\nenabled = false\n")
        _publish_events(context, node, sizes[-1])
        status = read_status(node.endpoint)
        origin, epoch, last = status["origin"], status["log"]["epoch"], status["log"]["last"]
        came = [
            _median(context, LOG, node, {"missed": missed}, (origin, epoch, last - missed))
            for missed in sizes
        ]
        node.stop()
    return came


def _publish_events(context: BenchmarkContext, node: NodeProcess, events: int) -> None:
    context.report_progress(f"{events} events are published")
    task = {"endpoint": node.endpoint, "batch": BATCH, "portions": [events]}
    publisher = Actor(context.children, "publish_prebuilt", task)
    publisher.wait_for("ready", TIMEOUT)
    publisher.start_run()
    publisher.wait_for("done", TIMEOUT)
    publisher.stop()


# ------------------------------------------------------------------ from the archive


def _measure_engine(
    context: BenchmarkContext, engine: str, archive: Path, count: int
) -> tuple[Cold, list[Recovery]]:
    """A new node's first recovery is cold, all others are warm."""
    settings = archive_settings(archive, engine)
    with context.empty_folder() as folder:
        context.report_progress(f"{engine}: cold")
        few = min(MISSED[0], count)
        actor = start_clients(context, {"missed": few, "name": "cold"})
        began = time.monotonic()
        node = NodeProcess(context.children, folder, settings)
        came = run_recovery(actor, node, (ORIGIN, 1, count - few))
        cold = Cold(engine, node.startup, came["first"] - began, few)
        returns = [
            _median(context, engine, node, {"missed": missed}, (ORIGIN, 1, count - missed))
            for missed in missed_counts(count)
        ]
        returns += [
            _median(context, engine, node, {"clients": clients, "events": count}, (ORIGIN, 1, 0))
            for clients in CLIENTS
        ]
        check_nothing_lost(node)
        node.stop()
    return cold, returns


def archive_settings(archive: Path, engine: str) -> str:
    """Return the settings for the archive of another node."""
    return f'{LIMITS_TOML}[archive]\nlocation = "{archive}"\n[recovery]\nengine = "{engine}"\n'


def _median(
    context: BenchmarkContext,
    source: str,
    node: NodeProcess,
    task: dict[str, Any],
    behind: tuple[str, int, int],
) -> Recovery:
    found = []
    clients, events = task.get("clients", 1), task.get("missed") or task["events"]
    for number in range(1 if context.quick else RUNS):
        context.report_progress(f"{source}: {clients} clients, {events} events, run {number}")
        before = count_jobs(node)
        name = f"{source}-{clients}-{events}-{number}"
        came = run_recovery(start_clients(context, {**task, "name": name}), node, behind)
        if came["events"] != events:
            raise BenchmarkFailed(f"{came['events']} of {events} events were delivered")
        found.append(
            Recovery(
                *(source, clients, events, "missed" not in task, came["connecting"]),
                first=came["first"] - came["asked"],
                seconds=came["ended"] - came["asked"],
                deliveries=came["deliveries"],
                jobs=count_jobs(node) - before,
                cpu=came["cpu"],
                parse=measure_parse(),
            )
        )
    return sorted(found, key=lambda each: each.seconds)[len(found) // 2]


def start_clients(context: BenchmarkContext, task: dict[str, Any]) -> Actor:
    actor = Actor(context.children, "recovering_clients", task)
    actor.wait_for("ready", RECOVERY_TIMEOUT)
    return actor


def run_recovery(actor: Actor, node: NodeProcess, behind: tuple[str, int, int]) -> dict[str, Any]:
    """Return the clients' figures."""
    actor.start_run(endpoint=node.endpoint, behind=behind)
    came = actor.wait_for("done", RECOVERY_TIMEOUT, node.check)
    actor.stop()
    return came


def count_jobs(node: NodeProcess) -> int:
    time.sleep(_LOOKED)
    replays = read_status(node.endpoint)["recovery"]["replays"]
    return 0 if replays is None else int(replays.get("jobs", 0))


def check_nothing_lost(node: NodeProcess) -> None:
    recoveries = read_status(node.endpoint)["recovery"]["recoveries"]
    if recoveries["lost_places"]:
        raise BenchmarkFailed(f"{recoveries['lost_places']} places were lost")
