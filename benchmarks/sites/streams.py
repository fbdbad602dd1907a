"""Rate of a stream between three whole nodes over TCP: `rcm` beside `mspaces`."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, Final

import attrs

from benchmarks.actors.subscribe import EVERYTHING
from benchmarks.harness.actor import Actor
from benchmarks.harness.context import BenchmarkContext
from benchmarks.harness.flow import TIMEOUT
from benchmarks.harness.group_nodes import read_stack, start_group
from benchmarks.harness.node_process import NodeProcess
from benchmarks.harness.report import Floor, Sheet, format_number
from benchmarks.harness.usage import cpu_seconds

STACKS: Final = ("mspaces", "rcm")
#: Of a PUBLISH message.
BATCH: Final = 500
WARM_UP: Final = 5_000
EVENTS: Final = 20_000
ROUNDS: Final = 5
#: `rcm` carries at least this part of the rate of `mspaces`.
FLOOR: Final = 0.5
#: A delayed subscriber must not miss events.
_QUEUE: Final = "[queue]\nevents = 1000000\n"


@attrs.frozen
class StreamRun:
    use: str
    events: int
    seconds: float
    cpu: list[float]
    """Processor seconds of each node. The publisher is at the first one."""
    dropped: int
    refused: int = 0
    """Messages that the links of the first node refused: their events come from its log."""

    @property
    def rate(self) -> float:
        return self.events / self.seconds

    def cost(self, node: int) -> float:
        """Return microseconds of a node for each event."""
        return 1e6 * self.cpu[node] / self.events


def measure(context: BenchmarkContext) -> list[StreamRun]:
    """Runs of all stacks alternate."""
    portions = [500, 1_000] if context.quick else [WARM_UP, EVENTS]
    runs = []
    for number in range(1, 2 if context.quick else ROUNDS + 1):
        for use in STACKS:
            context.report_progress(f"stream over {use}, round {number}")
            runs.append(measure_run(context, use, portions))
    return runs


def measure_run(context: BenchmarkContext, use: str, portions: Sequence[int]) -> StreamRun:
    """The last portion is measured, earlier ones warm up. Each other node has a subscriber."""
    with context.empty_folder() as folder:
        nodes = start_group(context.children, folder, use, 3, _QUEUE)
        subscribers = [_start_subscriber(context, node, portions) for node in nodes[1:]]
        for each in subscribers:
            each.wait_for("ready", TIMEOUT)
        task: dict[str, Any] = {"endpoint": nodes[0].endpoint, "portions": portions}
        publisher = Actor(context.children, "publish_prebuilt", {**task, "batch": BATCH})
        for index in range(len(portions)):
            publisher.wait_for("ready", TIMEOUT)
            for each in subscribers if index else ():
                each.wait_for("ready", TIMEOUT)
            before = [cpu_seconds(node.pid) for node in nodes]
            for each in (*subscribers, publisher):
                each.start_run()
            sent = publisher.wait_for("done", TIMEOUT)
            came = [each.wait_for("done", TIMEOUT) for each in subscribers]
            used = [cpu_seconds(node.pid) - past for node, past in zip(nodes, before, strict=True)]
        for actor in (*subscribers, publisher):
            actor.stop()
        refused = int(read_stack(nodes[0]).get("lost_sends", 0))
        for node in nodes:
            node.stop()
    seconds = max([sent["ended"], *(each["ended"] for each in came)]) - sent["began"]
    dropped = sum(each["dropped"] for each in came)
    return StreamRun(use, portions[-1], seconds, used, dropped, refused)


def _start_subscriber(
    context: BenchmarkContext, node: NodeProcess, portions: Sequence[int]
) -> Actor:
    task = {"subscribers": 1, "portions": portions, "query": EVERYTHING}
    return Actor(context.children, "subscribe", {"endpoint": node.endpoint, **task})


def make_sheet(runs: Sequence[StreamRun]) -> Sheet:
    rows = []
    for use in STACKS:
        ours = [each for each in runs if each.use == use]
        rates = [each.rate for each in ours]
        costs = [statistics.median(each.cost(node) for each in ours) for node in range(3)]
        rows.append(
            [
                *(use, format_number(statistics.median(rates))),
                f"{format_number(min(rates))}-{format_number(max(rates))}",
                *(f"{cost:.1f}" for cost in costs),
                str(sum(each.dropped for each in ours)),
                str(sum(each.refused for each in ours)),
            ]
        )
    return Sheet(
        "A stream from node a to subscribers at b and c, over TCP on loopback",
        ["stack", "events/s", "min-max", "a us", "b us", "c us", "dropped", "refused"],
        rows,
    )


def make_floors(runs: Sequence[StreamRun]) -> list[Floor]:
    """Return the floor of the median of the ratios of alternate runs."""
    ours, others = ([each.rate for each in runs if each.use == use] for use in ("rcm", "mspaces"))
    ratio = statistics.median(one / two for one, two in zip(ours, others, strict=True))
    return [Floor("a stream over rcm, to one over mspaces", ratio, FLOOR, "")]
