"""Clients that come back to a node and get what they missed, timed at the clients.

Events of an origin that is gone lie in an archive; a node that never had them serves it. What
is delivered to all clients together is the same however many they are: each event matches the query
of one of them.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

from benchmarks.harness.actor import Actor
from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.harness.flow import PATIENCE
from benchmarks.harness.lab import Lab
from benchmarks.harness.node_process import NodeProcess
from benchmarks.harness.node_status import node_status
from benchmarks.harness.report import Report
from benchmarks.harness.speed import parse_microseconds
from benchmarks.recover_report import LOG, Cold, Return, report
from benchmarks.workloads.archived_flights import ORIGIN, write_flights
from broker.errors import EngineUnavailable
from broker.replay.engine.spark_session import check_java

DESCRIPTION: Final = (
    "clients that come back: cold, to few and many events, one and a thousand of them"
)

EVENTS: Final = 1_000_000
QUICK_EVENTS: Final = 20_000
#: Events that one client missed.
MISSED: Final = (10, 1_000, 100_000)
CLIENTS: Final = (1, 100, 1_000)
#: The median counts. What the first recovery of a node starts was started by the cold one.
RUNS: Final = 3
#: Events in a PUBLISH message.
BATCH: Final = 500
#: Seconds that a recovery may take.
LONGEST: Final = 1_800.0
#: The node asks its replay process each second how it is: then it surely has.
_LOOKED: Final = 2.0
#: A thousand clients are there, and who asks the node how it is; those who have gone are gone.
LIMITS: Final = "[limits]\nmax_sessions = 1100\nsession_lease = 0.0\n"


def run(lab: Lab) -> Report:
    """The log first, then both engines."""
    count = lab.events or (QUICK_EVENTS if lab.quick else EVENTS)
    returns = _from_log(lab, count)
    cold = []
    missing = without_spark()
    with lab.empty_folder() as folder:
        archive = folder / "archive"
        write_flights(str(archive), count, lambda done: lab.say(f"{done} events archived"))
        for engine in ("local", "spark"):
            if engine == "spark" and missing:
                continue
            began, came = _engine(lab, engine, archive, count)
            cold.append(began)
            returns += came
    return report(count, cold, returns, missing)


def without_spark() -> str:
    """Why there can be no Spark here; empty where there can."""
    try:
        check_java()
    except EngineUnavailable as error:
        return str(error)
    return ""


def missed_of(count: int) -> list[int]:
    """As many as there are, where there are not so many."""
    return list(dict.fromkeys(min(each, count) for each in MISSED))


# ------------------------------------------------------------------ from the log


def _from_log(lab: Lab, count: int) -> list[Return]:
    """The node has published all itself, and has no archive."""
    sizes = missed_of(count)
    with lab.empty_folder() as folder:
        node = NodeProcess(lab.children, folder, f"{LIMITS}[archive]\nenabled = false\n")
        _publish(lab, node, sizes[-1])
        said = node_status(node.endpoint)
        origin, epoch, last = said["origin"], said["log"]["epoch"], said["log"]["last"]
        came = [
            _median(lab, LOG, node, {"missed": missed}, (origin, epoch, last - missed))
            for missed in sizes
        ]
        node.stop()
    return came


def _publish(lab: Lab, node: NodeProcess, events: int) -> None:
    lab.say(f"{events} events are published")
    task = {"endpoint": node.endpoint, "batch": BATCH, "portions": [events]}
    publisher = Actor(lab.children, "publish_prebuilt", task)
    publisher.hear("ready", PATIENCE)
    publisher.go()
    publisher.hear("done", PATIENCE)
    publisher.end()


# ------------------------------------------------------------------ from the archive


def _engine(lab: Lab, engine: str, archive: Path, count: int) -> tuple[Cold, list[Return]]:
    """A new node with one engine: its first recovery is the cold one, all others are warm."""
    settings = archived(archive, engine)
    with lab.empty_folder() as folder:
        lab.say(f"{engine}: cold")
        few = min(MISSED[0], count)
        actor = returning(lab, {"missed": few, "name": "cold"})
        began = time.monotonic()
        node = NodeProcess(lab.children, folder, settings)
        came = come_back(actor, node, (ORIGIN, 1, count - few))
        cold = Cold(engine, node.startup, came["first"] - began, few)
        returns = [
            _median(lab, engine, node, {"missed": missed}, (ORIGIN, 1, count - missed))
            for missed in missed_of(count)
        ]
        returns += [
            _median(lab, engine, node, {"clients": clients, "events": count}, (ORIGIN, 1, 0))
            for clients in CLIENTS
        ]
        check(node)
        node.stop()
    return cold, returns


def archived(archive: Path, engine: str) -> str:
    """The configuration of a node that serves an archive of others."""
    return f'{LIMITS}[archive]\nlocation = "{archive}"\n[recovery]\nengine = "{engine}"\n'


def _median(
    lab: Lab, source: str, node: NodeProcess, task: dict[str, Any], behind: tuple[str, int, int]
) -> Return:
    """The median run, by its time."""
    found = []
    clients, events = task.get("clients", 1), task.get("missed") or task["events"]
    for number in range(1 if lab.quick else RUNS):
        lab.say(f"{source}: {clients} clients, {events} events, run {number}")
        before = jobs(node)
        name = f"{source}-{clients}-{events}-{number}"
        came = come_back(returning(lab, {**task, "name": name}), node, behind)
        if came["events"] != events:
            raise BenchmarkFailed(f"{came['events']} of {events} events were delivered")
        found.append(
            Return(
                *(source, clients, events, "missed" not in task, came["connecting"]),
                first=came["first"] - came["asked"],
                seconds=came["ended"] - came["asked"],
                deliveries=came["deliveries"],
                jobs=jobs(node) - before,
                cpu=came["cpu"],
                parse=parse_microseconds(),
            )
        )
    return sorted(found, key=lambda each: each.seconds)[len(found) // 2]


def returning(lab: Lab, task: dict[str, Any]) -> Actor:
    """Clients that are ready to come back."""
    actor = Actor(lab.children, "come_back", task)
    actor.hear("ready", LONGEST)
    return actor


def come_back(actor: Actor, node: NodeProcess, behind: tuple[str, int, int]) -> dict[str, Any]:
    """Have them come back to a node, behind a place of an origin; what they said."""
    actor.go(endpoint=node.endpoint, behind=behind)
    came = actor.hear("done", LONGEST, node.check)
    actor.end()
    return came


def jobs(node: NodeProcess) -> int:
    """Jobs that its replay process has begun."""
    time.sleep(_LOOKED)
    replays = node_status(node.endpoint)["recovery"]["replays"]
    return 0 if replays is None else int(replays.get("jobs", 0))


def check(node: NodeProcess) -> None:
    """Raise if anybody was told that something is lost."""
    recoveries = node_status(node.endpoint)["recovery"]["recoveries"]
    if recoveries["lost_places"]:
        raise BenchmarkFailed(f"{recoveries['lost_places']} places were lost")
