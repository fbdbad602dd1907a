"""Rate of messages between clients of ten sites over TCP, with the order and without it (R2)."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, Final

import attrs

from benchmarks.harness.actor import Actor
from benchmarks.harness.context import BenchmarkContext
from benchmarks.harness.report import Floor, Sheet, format_number

KINDS: Final = ("plain", "rcm")
SITES: Final = 10
CLIENTS: Final = 100
"""At each site."""
MESSAGES: Final = 3_000
ROUNDS: Final = 5
#: Of the rate without the order layer.
FLOOR: Final = 2 / 3
_PATIENCE: Final = 120.0


@attrs.frozen
class MessageRun:
    kind: str
    messages: int
    seconds: float
    cpu: float
    """Processor seconds of all sites."""
    deliveries: int
    """To clients."""
    late: int

    @property
    def rate(self) -> float:
        return self.messages / self.seconds


def measure(context: BenchmarkContext) -> list[MessageRun]:
    """Runs of both kinds alternate; the first ones are not measured."""
    portions = [500, 1_000] if context.quick else [MESSAGES] * (ROUNDS + 1)
    task = {"kinds": KINDS, "sites": SITES, "clients": CLIENTS, "portions": portions}
    actor = Actor(context.children, "group_sites", task)
    runs = []
    for number in range(len(portions)):
        context.report_progress(f"messages between clients, round {number}")
        for _ in KINDS:
            figures: dict[str, Any] = actor.wait_for("done", _PATIENCE)
            del figures["says"]
            runs.append(MessageRun(**figures))
    actor.stop()
    return runs[len(KINDS) :]


def make_sheet(runs: Sequence[MessageRun]) -> Sheet:
    rows = []
    for kind in KINDS:
        ours = [each for each in runs if each.kind == kind]
        rates = [each.rate for each in ours]
        delivered = statistics.median(each.deliveries / each.seconds for each in ours)
        cost = statistics.median(1e6 * each.cpu / each.messages / SITES for each in ours)
        rows.append(
            [
                "with the order" if kind == "rcm" else "without the order",
                *(format_number(statistics.median(rates)), format_number(delivered)),
                f"{format_number(min(rates))}-{format_number(max(rates))}",
                *(f"{cost:.1f}", str(sum(each.late for each in ours))),
            ]
        )
    return Sheet(
        f"Messages of 100 bytes to all clients of {SITES} sites with {CLIENTS} clients each, "
        "over TCP on loopback, in one process",
        ["sites", "messages/s", "deliveries/s", "min-max", "us per message at a site", "late"],
        rows,
    )


def make_floor(runs: Sequence[MessageRun]) -> Floor:
    by_kind = {kind: [each.rate for each in runs if each.kind == kind] for kind in KINDS}
    ratios = [ours / plain for plain, ours in zip(*by_kind.values(), strict=True)]
    what = "messages of ten sites' clients, to those without the order layer"
    return Floor(what, statistics.median(ratios), FLOOR, "")
