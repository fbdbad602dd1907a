"""Loss at a client of one to four parents, without retransmission, over UDP (DCP D73; A1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs

from benchmarks.harness.actor import Actor
from benchmarks.harness.context import BenchmarkContext
from benchmarks.harness.report import Sheet, format_number
from benchmarks.meshes.binomial import binomial_bounds
from benchmarks.sites.finding import Finding

PARENTS: Final = (1, 2, 3, 4)
#: Without loss nothing may be missing.
LOSSES: Final = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5)
EVENTS: Final = 20_000
QUICK_LOSSES: Final = (0.0, 0.1, 0.5)
QUICK_EVENTS: Final = 500
CONFIDENCE: Final = 0.9999
#: Processes that measure, and points of each at a time.
_PROCESSES: Final = 2
_AT_ONCE: Final = 4
_QUICK_AT_ONCE: Final = 6
#: Seconds for one point.
_TIMEOUT: Final = 600.0


@attrs.frozen
class LossPoint:
    parents: int
    loss: float
    """Of each link to the client."""
    events: int
    missing: int
    """At the client's subscription."""
    dropped: int
    """Datagrams that the system dropped."""

    @property
    def expected(self) -> float:
        return float(self.loss**self.parents)

    @property
    def bounds(self) -> tuple[int, int]:
        return binomial_bounds(self.events, self.expected, CONFIDENCE)

    @property
    def is_met(self) -> bool:
        least, most = self.bounds
        return least <= self.missing <= most


def measure(context: BenchmarkContext) -> list[LossPoint]:
    """Measure the points in two processes. All routers of a point are in one of them."""
    quick = context.quick
    events = QUICK_EVENTS if quick else EVENTS
    tasks = [
        {"parents": parents, "loss": loss, "events": events}
        for loss in (QUICK_LOSSES if quick else LOSSES)
        for parents in PARENTS
    ]
    at_once = _QUICK_AT_ONCE if quick else _AT_ONCE
    actors = [
        Actor(
            *(context.children, "mesh_loss"),
            {"points": tasks[first::_PROCESSES], "at_once": at_once},
        )
        for first in range(_PROCESSES)
    ]
    points: list[LossPoint] = []
    for number in range(len(tasks)):
        context.report_progress(f"loss at a client: {number} of {len(tasks)} points")
        found = actors[number % _PROCESSES].wait_for("point", _TIMEOUT)
        del found["says"]
        points.append(LossPoint(**found))
    for actor in actors:
        actor.stop()
    return sorted(points, key=lambda each: (each.loss, each.parents))


def findings(points: Sequence[LossPoint]) -> list[Finding]:
    name = "loss"
    lossless = [each for each in points if not each.loss]
    lossy = [each for each in points if each.loss]
    met = sum(each.is_met for each in lossy)
    return [
        Finding(name, "missing without loss", sum(p.missing for p in lossless), "events", most=0),
        Finding(name, "dropped by the system", sum(p.dropped for p in points), "", most=0),
        Finding(
            *(name, f"points of {len(lossy)} within the bounds of f^k", met, "", "f^k"),
            least=len(lossy),
        ),
    ]


def make_sheet(points: Sequence[LossPoint], *, quick: bool) -> Sheet:
    rows = [
        (
            *(str(each.parents), f"{each.loss:.0%}", format_number(each.events)),
            *(f"{100 * each.expected:.4f} %", f"{100 * each.missing / each.events:.4f} %"),
            format_number(each.missing),
            " to ".join(map(format_number, each.bounds)),
            "means nothing" if quick else "PASS" if each.is_met else "MISSED",
        )
        for each in points
    ]
    columns = ("parents", "loss f", "events", "f^k", "measured", "missing", "must be", "")
    return Sheet("Loss at a client without retransmission, over UDP on loopback", columns, rows)


def draw(points: Sequence[LossPoint], axis: Any) -> None:
    for parents in PARENTS:
        chosen = [each for each in points if each.parents == parents and each.loss]
        losses = [100 * each.loss for each in chosen]
        shares = [100 * each.missing / each.events or None for each in chosen]
        (line,) = axis.plot(losses, shares, "o", label=f"{parents} parents")
        expected = [100 * each.expected for each in chosen]
        axis.plot(losses, expected, color=line.get_color(), linestyle=":")
    axis.set_yscale("log")
    axis.set_title("loss at a client, UDP; dotted: f^k")
    axis.set_xlabel("loss of each link f, %")
    axis.set_ylabel("missing events, %")
    axis.legend()
