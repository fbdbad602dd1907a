"""Recovery compared with NATS JetStream, timed at the clients.

In xmlbroker a thousand clients have queries of their own. JetStream filters only by subject, so a
hundred consumers read one subject each. Each event goes to one client or consumer. JetStream stores
two streams: whole documents, and payloads alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import attrs

from benchmarks.harness.actor import Actor
from benchmarks.harness.context import BenchmarkContext
from benchmarks.harness.debian import Unavailable
from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.harness.nats_process import NatsProcess, executable, version
from benchmarks.harness.node_process import NodeProcess
from benchmarks.harness.report import Report
from benchmarks.harness.usage import cpu_seconds
from benchmarks.jetstream_report import Round, Turn, report
from benchmarks.recover import EVENTS as _EVENTS
from benchmarks.recover import (
    RECOVERY_TIMEOUT,
    archive_settings,
    check_nothing_lost,
    count_jobs,
    run_recovery,
    spark_problem,
    start_clients,
)
from benchmarks.workloads.archived_flights import ORIGIN, write_flights

DESCRIPTION: Final = "1,000 clients with queries recover, against 100 consumers of NATS JetStream"

EVENTS: Final = 2 * _EVENTS
QUICK_EVENTS: Final = 20_000
CLIENTS: Final = 1_000
CONSUMERS: Final = 100
#: The first one only warms up.
ROUNDS: Final = 4


@attrs.frozen
class StreamContent:
    stream: str
    subject_prefix: str
    """Unique among the streams."""
    is_bare: bool
    """Without an envelope."""
    ending: str
    """End of each message, which occurs nowhere else."""

    @property
    def subjects(self) -> list[str]:
        return [f"{self.subject_prefix}.{number}" for number in range(CONSUMERS)]


DOCUMENTS: Final = StreamContent("documents", "d", is_bare=False, ending="</Mspaces:Event>")
PAYLOADS: Final = StreamContent("payloads", "p", is_bare=True, ending="</flight>")


def run(context: BenchmarkContext) -> Report:
    count = context.events or (QUICK_EVENTS if context.quick else EVENTS)
    missing = ""
    with context.empty_folder() as folder:
        try:
            program = executable()
        except Unavailable as reason:
            raise BenchmarkFailed(f"there is no peer: {reason}") from None
        for name in ("nats", "node"):
            (folder / name).mkdir()
        server = NatsProcess(context.children, program, folder / "nats")
        kept = {
            each.stream: _publish_all(context, server, each, count)
            for each in (DOCUMENTS, PAYLOADS)
        }
        archive = folder / "archive"
        write_flights(
            str(archive), count, lambda done: context.report_progress(f"{done} events archived")
        )
        missing = spark_problem()
        engines = ["local"] if missing else ["local", "spark"]
        rounds: list[Round] = []
        for engine in engines:
            rounds += _run_engine(context, engine, folder, server, count)
        server.stop()
        size = sum(file.stat().st_size for file in archive.rglob("*") if file.is_file())
    return report(count, rounds, version(program), {"archive": size, **kept}, missing)


def _publish_all(
    context: BenchmarkContext, server: NatsProcess, what: StreamContent, count: int
) -> int:
    context.report_progress(f"{count} {what.stream} are published to JetStream")
    task = {
        "port": server.port,
        "stream": what.stream,
        "bare": what.is_bare,
        "events": count,
        "subjects": what.subjects,
    }
    publisher = Actor(context.children, "nats_publish", task)
    publisher.wait_for("ready", RECOVERY_TIMEOUT)
    publisher.start_run()
    done = publisher.wait_for("done", RECOVERY_TIMEOUT)
    publisher.stop()
    kept: int = done["bytes"]
    return kept


def _run_engine(
    context: BenchmarkContext, engine: str, folder: Path, server: NatsProcess, count: int
) -> list[Round]:
    """JetStream follows right after each round."""
    place = folder / "node" / engine
    place.mkdir()
    node = NodeProcess(context.children, place, archive_settings(folder / "archive", engine))
    found = []
    for number in range(1 if context.quick else ROUNDS):
        context.report_progress(f"{engine}: {CLIENTS} clients, round {number}")
        ours = _run_clients(context, node, engine, number, count)
        context.report_progress(f"JetStream: {CONSUMERS} consumers, round {number}")
        documents, payloads = (
            _run_consumers(context, server, each, count) for each in (DOCUMENTS, PAYLOADS)
        )
        found.append(Round(engine, number, *ours, documents, payloads))
    check_nothing_lost(node)
    node.stop()
    return found if context.quick else found[1:]


def _run_clients(
    context: BenchmarkContext, node: NodeProcess, engine: str, number: int, count: int
) -> tuple[float, float, int, float]:
    before = count_jobs(node)
    task = {"clients": CLIENTS, "events": count, "name": f"{engine}-{number}"}
    came = run_recovery(start_clients(context, task), node, (ORIGIN, 1, 0))
    _check_count(came, count)
    seconds = came["ended"] - came["asked"]
    return seconds, came["first"] - came["asked"], count_jobs(node) - before, came["cpu"]


def _run_consumers(
    context: BenchmarkContext, server: NatsProcess, what: StreamContent, count: int
) -> Turn:
    share, more = divmod(count, CONSUMERS)
    wanted = {each: share + (turn < more) for turn, each in enumerate(what.subjects)}
    task = {
        "port": server.port,
        "stream": what.stream,
        "subjects": wanted,
        "ending": what.ending,
    }
    reader = Actor(context.children, "nats_read", task)
    reader.wait_for("ready", RECOVERY_TIMEOUT)
    cpu = cpu_seconds(server.pid)
    reader.start_run()
    came = reader.wait_for("done", RECOVERY_TIMEOUT)
    cpu = cpu_seconds(server.pid) - cpu
    reader.stop()
    _check_count(came, count)
    return Turn(came["ended"] - came["asked"], came["first"] - came["asked"], cpu, came["cpu"])


def _check_count(came: dict[str, Any], count: int) -> None:
    if came["events"] != count:
        raise BenchmarkFailed(f"{came['events']} of {count} events were delivered")
