"""Rate of a stream between three whole nodes over TCP: `rcm` beside `mspaces`, and compared.

All nodes run from begin to end, and get portions in turn: the speed of a shared machine changes
within seconds.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Final

import attrs

from benchmarks.harness.context import BenchmarkContext
from benchmarks.harness.group_nodes import read_stack, start_group
from benchmarks.harness.measured_nodes import QUEUE, MeasuredNodes, Portion
from benchmarks.harness.report import Floor, Sheet, format_number

COMPARED: Final = "rcm, compared"
STACKS: Final = ("mspaces", "rcm", COMPARED)
#: Setting of a stack that compares all variants.
COMPARE: Final = 'compare = ["logical", "sequencer", "real-time", "hybrid"]\n'
#: Of a PUBLISH message.
BATCH: Final = 500
#: Of a portion.
EVENTS: Final = 20_000
PORTIONS: Final = 12
#: `rcm` carries at least this part of the rate of `mspaces`.
FLOOR: Final = 0.5
#: With all variants compared, at least this part of the rate of one.
COMPARISON_FLOOR: Final = 2 / 3


@attrs.frozen
class StreamRun:
    use: str
    portions: list[Portion]
    refused: int = 0
    """Messages that the links of the first node refused: their events come from its log."""

    @property
    def rates(self) -> list[float]:
        return [each.events / each.seconds for each in self.portions]

    def cost(self, node: int) -> float:
        """Return microseconds of a node for each event."""
        events = sum(each.events for each in self.portions)
        return 1e6 * sum(each.cpu[node] for each in self.portions) / events


def measure(context: BenchmarkContext) -> list[StreamRun]:
    """Run all stacks, with a publisher at the first node and subscribers at the others.

    The first portion is not measured.
    """
    portions = [500, 1_000] if context.quick else [EVENTS] * (PORTIONS + 1)
    found: dict[str, list[Portion]] = {use: [] for use in STACKS}
    with context.empty_folder() as folder:
        groups = {}
        for use in STACKS:
            (folder / use).mkdir()
            further = COMPARE + QUEUE if use == COMPARED else QUEUE
            nodes = start_group(context.children, folder / use, use.split(",")[0], 3, further)
            groups[use] = MeasuredNodes(
                *(context.children, nodes, nodes[1:], portions, {"batch": BATCH})
            )
        for each in groups.values():
            each.wait_until_ready()
        for number in range(len(portions)):
            context.report_progress(f"stream, portion {number} of {len(portions) - 1}")
            for use, each in groups.items():
                each.start()
                found[use].append(each.end())
                if number + 1 < len(portions):
                    # It builds events, which must not disturb others.
                    each.wait_until_ready()
        runs = []
        for use, each in groups.items():
            each.stop()
            refused = int(read_stack(each.nodes[0]).get("lost_sends", 0))
            runs.append(StreamRun(use, found[use][1:], refused))
            for node in each.nodes:
                node.stop()
        return runs


def make_sheet(runs: Sequence[StreamRun]) -> Sheet:
    rows = [
        [
            *(run.use, format_number(statistics.median(run.rates))),
            f"{format_number(min(run.rates))}-{format_number(max(run.rates))}",
            *(f"{run.cost(node):.1f}" for node in range(3)),
            str(sum(each.dropped for each in run.portions)),
            str(run.refused),
        ]
        for run in runs
    ]
    return Sheet(
        "A stream from node a to subscribers at b and c, over TCP on loopback",
        ["stack", "events/s", "min-max", "a us", "b us", "c us", "dropped", "refused"],
        rows,
    )


def make_floors(runs: Sequence[StreamRun]) -> list[Floor]:
    ordered, compared = _ratio(runs, "rcm", "mspaces"), _ratio(runs, COMPARED, "rcm")
    return [
        Floor("a stream over rcm, to one over mspaces", ordered, FLOOR, ""),
        Floor("a stream with all variants compared, to one", compared, COMPARISON_FLOOR, ""),
    ]


def _ratio(runs: Sequence[StreamRun], use: str, other: str) -> float:
    """Return the median of the ratios of portions that follow each other."""
    rates = {run.use: run.rates for run in runs}
    pairs = zip(rates[use], rates[other], strict=True)
    return statistics.median(ours / theirs for ours, theirs in pairs)
