"""Live events a second with and without an archive."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

from benchmarks.harness.actor import Actor
from benchmarks.harness.context import BenchmarkContext
from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.harness.flow import TIMEOUT, FlowRunner
from benchmarks.harness.node_process import NodeProcess
from benchmarks.harness.report import Report
from benchmarks.harness.speed import measure_parse
from benchmarks.harness.usage import cpu_seconds
from benchmarks.ingest_report import Archived, Run, report
from broker.archive.archive import Archive
from broker.log.external_reader import ExternalReader

DESCRIPTION: Final = "live events a second with the archive off and on, and how far behind it is"

#: Events in a PUBLISH message.
BATCH: Final = 500
ROUNDS: Final = 5
#: Subscribers, and events of a run with several flushes.
WORKS: Final = ((1, 300_000), (10, 100_000))
WARM_UP: Final = 2_000
#: Less than the default: several flushes a run.
EVERY: Final = 1.0
_GLANCE: Final = 0.02
_ARCHIVER: Final = b"broker.archiver"


def run(context: BenchmarkContext) -> Report:
    """Archive off and on alternate, since the machine's speed varies."""
    rounds = 1 if context.quick else ROUNDS
    runs = []
    for number in range(1, rounds + 1):
        for subscribers, events in WORKS:
            portions = [500, 2_000] if context.quick else [WARM_UP, context.events or events]
            # The first of a round is the second of the next one.
            for on in (False, True) if number % 2 else (True, False):
                what = f"1->{subscribers}, archive {'on' if on else 'off'}"
                context.report_progress(f"round {number} of {rounds}: {what}")
                runs.append(_measure_run(context, subscribers, portions, on))
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


def _measure_run(context: BenchmarkContext, subscribers: int, portions: list[int], on: bool) -> Run:
    with context.empty_folder() as folder:
        settings = f"[archive]\nenabled = {str(on).lower()}\nevery = {EVERY}\n"
        node = NodeProcess(context.children, folder, settings)
        task: dict[str, Any] = {"endpoint": node.endpoint, "portions": portions}
        publisher = Actor(context.children, "publish_prebuilt", {**task, "batch": BATCH})
        subscriber = Actor(context.children, "subscribe", {**task, "subscribers": subscribers})
        runner = FlowRunner(node.pid, publisher, subscriber, subscribers)
        try:
            for events in portions[:-1]:
                runner.run(events)
            archive = _ArchiverMonitor(folder, node.pid) if on else None
            if archive is not None:
                archive.start()
            flow = runner.run(portions[-1])
            archived = None if archive is None else archive.finish(portions[-1], flow.seconds)
        finally:
            runner.stop()
        node.stop()
    return Run(subscribers, flow, measure_parse(), archived)


class _ArchiverMonitor:
    def __init__(self, folder: Path, node: int) -> None:
        self._log = ExternalReader(folder / "data" / "log")
        self._archive = Archive.open(str(folder / "data" / "archive"))
        self._archiver = find_archiver(node)
        self._cpu = 0.0

    def start(self) -> None:
        """Wait until the log is archived; count processor time from then on."""
        self._wait_until_archived()
        self._cpu = cpu_seconds(self._archiver)

    def finish(self, events: int, seconds: float) -> Archived:
        """Wait for the rest of the run."""
        behind = self._count_unarchived()
        late = self._wait_until_archived()
        cpu = cpu_seconds(self._archiver) - self._cpu
        self._log.close()
        return Archived(events, behind, late, seconds + late, cpu)

    def _count_unarchived(self) -> int:
        since, upto = self._log.own_extent()
        return upto[1] - self._archive.state().covered_upto(self._log.origin, since)[1]

    def _wait_until_archived(self) -> float:
        began = time.monotonic()
        while self._count_unarchived():
            if time.monotonic() - began > TIMEOUT:
                raise BenchmarkFailed(f"after {TIMEOUT:g} s the archive is still behind")
            time.sleep(_GLANCE)
        return time.monotonic() - began


def find_archiver(node: int) -> int:
    children = Path(f"/proc/{node}/task/{node}/children").read_text().split()
    for pid in map(int, children):
        if _ARCHIVER in Path(f"/proc/{pid}/cmdline").read_bytes():
            return pid
    raise BenchmarkFailed(f"node {node} has no archiver")
