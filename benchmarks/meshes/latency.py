"""Latency over loss with one to four parents, in virtual time (DCP D74, D75; A3)."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, Final

import attrs

from benchmarks.harness.report import Sheet, format_number
from benchmarks.latency import percentile
from benchmarks.meshes.virtual_mesh import VirtualMesh, links_between
from benchmarks.sites.finding import Finding

PARENTS: Final = (1, 2, 3, 4)
LOSSES: Final = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
EVENTS: Final = 5_000
#: Of the floors.
LOSS: Final = 0.1
#: Seconds between two events: 2,381 bytes/s in chunks of 262 bytes.
GAP: Final = 0.11
#: Seconds of a link one way, as in a local network.
DELAY: Final = 0.001
#: Most of the added mean of one parent, with two.
TWO_TO_ONE: Final = 0.2
#: Milliseconds over the p99 without loss, with three parents.
P99_MARGIN: Final = 5.0
#: Seconds in which the last events are requested, or left to the log.
_SETTLE: Final = 5.0


@attrs.frozen
class LatencyPoint:
    """Milliseconds from publication to the subscription of the client."""

    parents: int
    loss: float
    mean: float
    p99: float
    events: int
    delivered: int
    nacks: int


def measure(parents: int, loss: float, events: int = EVENTS, seed: int = 1) -> LatencyPoint:
    """Run one root, routers without loss, and a client of all routers."""
    mesh = VirtualMesh(seed, DELAY)
    routers = [f"router{number}" for number in range(parents)]
    mesh.add("root")
    for name in routers:
        mesh.add(name, ["root"])
    client = mesh.add_client(routers)
    mesh.begin()
    mesh.lose(loss, links_between(routers, [client.name]))
    ans = mesh.publish_paced(events, GAP)
    mesh.run(_SETTLE)
    found = [1e3 * each for each in mesh.latencies(client.name, ans)]
    return LatencyPoint(
        *(parents, loss, statistics.fmean(found), percentile(found, 0.99)),
        *(events, len(found), client.router.nacks),
    )


def added_mean(points: Sequence[LatencyPoint], parents: int, loss: float) -> float:
    """Return the mean latency over that of the same mesh without loss."""
    return _find(points, parents, loss).mean - _find(points, parents, 0.0).mean


def findings(points: Sequence[LatencyPoint]) -> list[Finding]:
    one, two = (added_mean(points, parents, LOSS) for parents in (1, 2))
    p99 = _find(points, 3, LOSS).p99 - _find(points, 3, 0.0).p99
    name = f"latency, {LOSS:.0%} loss"
    return [
        Finding(name, "added mean, one parent", one, "ms"),
        Finding(name, "added mean, two parents", two, "ms"),
        Finding(name, "added mean, two parents to one", two / one, "", "less", most=TWO_TO_ONE),
        Finding(name, "added p99, three parents", p99, "ms", most=P99_MARGIN),
    ]


def make_sheet(points: Sequence[LatencyPoint]) -> Sheet:
    rows = [
        (
            *(str(each.parents), f"{each.loss:.0%}", f"{each.mean:.2f}"),
            f"{max(0.0, added_mean(points, each.parents, each.loss)):.2f}",
            *(f"{each.p99:.2f}", format_number(each.nacks)),
            format_number(each.events - each.delivered),
        )
        for each in points
    ]
    columns = ("parents", "loss", "mean ms", "added ms", "p99 ms", "NACKs", "left to the log")
    title = f"Latency over loss, in virtual time: an event each {1e3 * GAP:g} ms"
    return Sheet(title, columns, rows)


def draw(points: Sequence[LatencyPoint], axis: Any) -> None:
    for parents in PARENTS:
        curve = [(100 * each.loss, each.mean) for each in points if each.parents == parents]
        axis.plot(*zip(*sorted(curve), strict=True), marker=".", label=f"{parents} parents")
    axis.set_yscale("log")
    axis.set_title("mean latency, virtual time")
    axis.set_xlabel("loss of each link, %")
    axis.set_ylabel("ms")
    axis.legend()


def _find(points: Sequence[LatencyPoint], parents: int, loss: float) -> LatencyPoint:
    return next(each for each in points if (each.parents, each.loss) == (parents, loss))
