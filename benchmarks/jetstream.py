"""NATS JetStream beside ours: everybody gets again what was kept, timed at the clients.

Here a thousand clients have queries of their own, which the archive is searched for; there a
hundred consumers filter by subject, all that JetStream can, and publishers have set it. Each event
goes to one client or consumer, so there are as many deliveries either way. JetStream has them
twice: as the whole documents that ours are, and as their payloads alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import attrs

from benchmarks.harness.actor import Actor
from benchmarks.harness.debian import Unavailable
from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.harness.lab import Lab
from benchmarks.harness.nats_process import NatsProcess, executable, version
from benchmarks.harness.node_process import NodeProcess
from benchmarks.harness.report import Report
from benchmarks.harness.usage import cpu_seconds
from benchmarks.jetstream_report import Round, Turn, report
from benchmarks.recover import EVENTS as _EVENTS
from benchmarks.recover import LONGEST, archived, check, come_back, jobs, returning, without_spark
from benchmarks.workloads.archived_flights import ORIGIN, write_flights

DESCRIPTION: Final = "1,000 clients with queries recover, against 100 consumers of NATS JetStream"

EVENTS: Final = 2 * _EVENTS
QUICK_EVENTS: Final = 20_000
CLIENTS: Final = 1_000
CONSUMERS: Final = 100
#: The first one only warms up.
ROUNDS: Final = 4


@attrs.frozen
class Kept:
    """A stream of the peer: what it keeps of each event."""

    stream: str
    letter: str
    """With which its subjects begin: no two streams have one in common."""
    bare: bool
    """Whether it keeps payloads alone, without an envelope."""
    ending: str
    """How each message ends, and nothing in it."""

    @property
    def subjects(self) -> list[str]:
        """They take turns."""
        return [f"{self.letter}.{number}" for number in range(CONSUMERS)]


DOCUMENTS: Final = Kept("documents", "d", bare=False, ending="</Mspaces:Event>")
PAYLOADS: Final = Kept("payloads", "p", bare=True, ending="</flight>")


def run(lab: Lab) -> Report:
    """Both are filled; then they take turns."""
    count = lab.events or (QUICK_EVENTS if lab.quick else EVENTS)
    missing = ""
    with lab.empty_folder() as folder:
        try:
            program = executable()
        except Unavailable as reason:
            raise BenchmarkFailed(f"there is no peer: {reason}") from None
        for name in ("nats", "node"):
            (folder / name).mkdir()
        server = NatsProcess(lab.children, program, folder / "nats")
        kept = {each.stream: _publish(lab, server, each, count) for each in (DOCUMENTS, PAYLOADS)}
        archive = folder / "archive"
        write_flights(str(archive), count, lambda done: lab.say(f"{done} events archived"))
        missing = without_spark()
        engines = ["local"] if missing else ["local", "spark"]
        rounds: list[Round] = []
        for engine in engines:
            rounds += _engine(lab, engine, folder, server, count)
        server.stop()
        size = sum(file.stat().st_size for file in archive.rglob("*") if file.is_file())
    return report(count, rounds, version(program), {"archive": size, **kept}, missing)


def _publish(lab: Lab, server: NatsProcess, what: Kept, count: int) -> int:
    lab.say(f"{count} {what.stream} are published to JetStream")
    task = {
        "port": server.port,
        "stream": what.stream,
        "bare": what.bare,
        "events": count,
        "subjects": what.subjects,
    }
    publisher = Actor(lab.children, "nats_publish", task)
    publisher.hear("ready", LONGEST)
    publisher.go()
    done = publisher.hear("done", LONGEST)
    publisher.end()
    kept: int = done["bytes"]
    return kept


def _engine(lab: Lab, engine: str, folder: Path, server: NatsProcess, count: int) -> list[Round]:
    """Rounds with one engine: the peer's turn comes soon after ours."""
    place = folder / "node" / engine
    place.mkdir()
    node = NodeProcess(lab.children, place, archived(folder / "archive", engine))
    found = []
    for number in range(1 if lab.quick else ROUNDS):
        lab.say(f"{engine}: {CLIENTS} clients, round {number}")
        ours = _ours(lab, node, engine, number, count)
        lab.say(f"JetStream: {CONSUMERS} consumers, round {number}")
        documents, payloads = (_theirs(lab, server, each, count) for each in (DOCUMENTS, PAYLOADS))
        found.append(Round(engine, number, *ours, documents, payloads))
    check(node)
    node.stop()
    return found if lab.quick else found[1:]


def _ours(
    lab: Lab, node: NodeProcess, engine: str, number: int, count: int
) -> tuple[float, float, int, float]:
    before = jobs(node)
    task = {"clients": CLIENTS, "events": count, "name": f"{engine}-{number}"}
    came = come_back(returning(lab, task), node, (ORIGIN, 1, 0))
    _complete(came, count)
    seconds = came["ended"] - came["asked"]
    return seconds, came["first"] - came["asked"], jobs(node) - before, came["cpu"]


def _theirs(lab: Lab, server: NatsProcess, what: Kept, count: int) -> Turn:
    share, more = divmod(count, CONSUMERS)
    wanted = {each: share + (turn < more) for turn, each in enumerate(what.subjects)}
    task = {
        "port": server.port,
        "stream": what.stream,
        "subjects": wanted,
        "ending": what.ending,
    }
    reader = Actor(lab.children, "nats_read", task)
    reader.hear("ready", LONGEST)
    cpu = cpu_seconds(server.pid)
    reader.go()
    came = reader.hear("done", LONGEST)
    cpu = cpu_seconds(server.pid) - cpu
    reader.end()
    _complete(came, count)
    return Turn(came["ended"] - came["asked"], came["first"] - came["asked"], cpu, came["cpu"])


def _complete(came: dict[str, Any], count: int) -> None:
    if came["events"] != count:
        raise BenchmarkFailed(f"{came['events']} of {count} events were delivered")
