"""Live events a second without an archive and with one that is written beside them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

from benchmarks.harness.actor import Actor
from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.harness.flow import PATIENCE, Course
from benchmarks.harness.lab import Lab
from benchmarks.harness.node_process import NodeProcess
from benchmarks.harness.report import Report
from benchmarks.harness.speed import parse_microseconds
from benchmarks.harness.usage import cpu_seconds
from benchmarks.ingest_report import Archived, Run, report
from broker.archive.archive import Archive
from broker.log.reading_along import LogAlong

DESCRIPTION: Final = "live events a second with the archive off and on, and how far behind it is"

#: Events in a PUBLISH message of the publisher.
BATCH: Final = 500
ROUNDS: Final = 5
#: Subscribers, and events of a run: some seconds, so that there are several flushes in each.
WORKS: Final = ((1, 300_000), (10, 100_000))
WARM_UP: Final = 2_000
#: Seconds between two flushes: less than the default, so that none falls behind a run's end alone.
EVERY: Final = 1.0
_GLANCE: Final = 0.02
_ARCHIVER: Final = b"broker.archiver"


def run(lab: Lab) -> Report:
    """All rounds: off and on take turns, for a machine has better and worse minutes."""
    rounds = 1 if lab.quick else ROUNDS
    runs = []
    for number in range(1, rounds + 1):
        for subscribers, events in WORKS:
            portions = [500, 2_000] if lab.quick else [WARM_UP, lab.events or events]
            # Who is first in a round is second in the next one.
            for on in (False, True) if number % 2 else (True, False):
                what = f"1->{subscribers}, archive {'on' if on else 'off'}"
                lab.say(f"round {number} of {rounds}: {what}")
                runs.append(_measured(lab, subscribers, portions, on))
    return report(runs, _notes())


def _notes() -> list[str]:
    return [
        "one node with its default configuration, prebuilt events (a payload of 262 bytes, in its "
        f"envelope about 1,036) in PUBLISH messages of {BATCH}, as fast as the node takes them; a "
        "query `true()` a subscriber; publisher, node, archiver and subscribers share the machine",
        f"on: its archiver writes every {EVERY:g} s (by default every 5 s), to the disk of the log",
        "off and on take turns, each run with a node and folders of its own; the fall is that of "
        "the medians of all rounds",
        "behind: events that the log had and the archive not yet, when the last one was delivered; "
        "caught up: how long after that there were none",
        "archived events/s: all events of a run, from its first send until they are in the archive",
    ]


def _measured(lab: Lab, subscribers: int, portions: list[int], on: bool) -> Run:
    with lab.empty_folder() as folder:
        settings = f"[archive]\nenabled = {str(on).lower()}\nevery = {EVERY}\n"
        node = NodeProcess(lab.children, folder, settings)
        task: dict[str, Any] = {"endpoint": node.endpoint, "portions": portions}
        publisher = Actor(lab.children, "publish_prebuilt", {**task, "batch": BATCH})
        subscriber = Actor(lab.children, "subscribe", {**task, "subscribers": subscribers})
        course = Course(node.pid, publisher, subscriber, subscribers)
        try:
            for events in portions[:-1]:
                course.run(events)
            archive = _Watched(folder, node.pid) if on else None
            if archive is not None:
                archive.wait()
            flow = course.run(portions[-1])
            archived = None if archive is None else archive.rest(portions[-1], flow.seconds)
        finally:
            course.end()
        node.stop()
    return Run(subscribers, flow, parse_microseconds(), archived)


class _Watched:
    """The archive of a node, and what its archiver uses."""

    def __init__(self, folder: Path, node: int) -> None:
        self._log = LogAlong(folder / "data" / "log")
        self._archive = Archive.open(str(folder / "data" / "archive"))
        self._archiver = archiver_of(node)
        self._cpu = 0.0

    def wait(self) -> None:
        """Until all that is in the log is archived, and from here on what it uses counts."""
        self._until_caught_up()
        self._cpu = cpu_seconds(self._archiver)

    def rest(self, events: int, seconds: float) -> Archived:
        """What a run came to that took so many seconds; waits for the rest of it."""
        behind = self._behind()
        late = self._until_caught_up()
        cpu = cpu_seconds(self._archiver) - self._cpu
        self._log.close()
        return Archived(events, behind, late, seconds + late, cpu)

    def _behind(self) -> int:
        since, upto = self._log.extent()
        return upto[1] - self._archive.state().covered_upto(self._log.origin, since)[1]

    def _until_caught_up(self) -> float:
        began = time.monotonic()
        while self._behind():
            if time.monotonic() - began > PATIENCE:
                raise BenchmarkFailed(f"after {PATIENCE:g} s the archive is still behind")
            time.sleep(_GLANCE)
        return time.monotonic() - began


def archiver_of(node: int) -> int:
    """The process of a node's archiver."""
    children = Path(f"/proc/{node}/task/{node}/children").read_text().split()
    for pid in map(int, children):
        if _ARCHIVER in Path(f"/proc/{pid}/cmdline").read_bytes():
            return pid
    raise BenchmarkFailed(f"node {node} has no archiver")
