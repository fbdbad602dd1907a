"""Throughput of two tiers with two parents each, against an erasure code (DCP D76-D79; A4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs

from benchmarks.harness.flights import PAYLOAD_BYTES
from benchmarks.harness.report import Sheet, format_number
from benchmarks.latency import percentile
from benchmarks.meshes.virtual_mesh import VirtualMesh, links_between
from benchmarks.sites.finding import Finding

LOSSES: Final = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4)
CHUNKS: Final = 10_000
#: Bytes/s.
RATE: Final = 2_381.0
#: Seconds of a link one way.
DELAY: Final = 0.01
#: Least share of the rate that arrives, at `HIGH_LOSS`.
SHARE: Final = 0.99
HIGH_LOSS: Final = 0.3
_ROOTS: Final = ("root0", "root1")
_ROUTERS: Final = ("router0", "router1")
#: Of the latency that is printed.
LATENCY_LOSS: Final = 0.1
#: Seconds after the last chunk; those that come later do not count.
_END: Final = 1.0


@attrs.frozen
class TierPoint:
    loss: float
    chunks: int
    arrived: int
    p95: float
    """Milliseconds of those that arrived."""
    nacks: int
    """Of the client."""
    lost_parents: int
    """Connections to parents that ended."""

    @property
    def share(self) -> float:
        return self.arrived / self.chunks


def erasure_share(loss: float, hops: int = 2, paths: int = 2) -> float:
    """Return the share of chunks that arrive on some of several disjoint paths, each once sent."""
    return float(1 - (1 - (1 - loss) ** hops) ** paths)


def measure(loss: float, chunks: int = CHUNKS, seed: int = 2) -> TierPoint:
    mesh = VirtualMesh(seed, DELAY)
    for name in _ROOTS:
        mesh.add(name)
    for name in _ROUTERS:
        mesh.add(name, _ROOTS)
    client = mesh.add_client(_ROUTERS)
    mesh.begin()
    children = [client, *(mesh.nodes[name] for name in _ROUTERS)]
    connections = {each.connection for child in children for each in child.router.parents}
    links = links_between(_ROOTS, _ROUTERS) + links_between(_ROUTERS, [client.name])
    mesh.lose(loss, links)
    ans = mesh.publish_paced(chunks, PAYLOAD_BYTES / RATE)
    mesh.run(_END)
    found = mesh.latencies(client.name, ans)
    p95 = 1e3 * percentile(found, 0.95)
    lost = sum(bool(each.error) for each in connections)
    return TierPoint(loss, chunks, len(found), p95, client.router.nacks, lost)


def findings(points: Sequence[TierPoint]) -> list[Finding]:
    by_loss = {each.loss: each for each in points}
    above = min(each.share - erasure_share(each.loss) for each in points)
    low, high = by_loss[LATENCY_LOSS], by_loss[HIGH_LOSS]
    name = "two tiers"
    return [
        Finding(
            *(name, "arrived over the erasure bound, at least", 100 * above, "%", "above"),
            least=0.0,
        ),
        Finding(
            *(name, f"arrived at {HIGH_LOSS:.0%} loss", 100 * high.share, "%"),
            f"erasure code {100 * erasure_share(HIGH_LOSS):.2f} %",
            100 * SHARE,
        ),
        Finding(name, f"p95 latency at {low.loss:.0%} loss", low.p95, "ms"),
    ]


def make_sheet(points: Sequence[TierPoint]) -> Sheet:
    rows = [
        (
            *(f"{each.loss:.0%}", format_number(RATE * each.share), f"{100 * each.share:.2f} %"),
            format_number(RATE * erasure_share(each.loss)),
            *(f"{100 * erasure_share(each.loss):.2f} %", f"{each.p95:.1f}"),
            *(format_number(each.nacks), str(each.lost_parents)),
        )
        for each in points
    ]
    title = (
        f"Two tiers of two parents, in virtual time: {PAYLOAD_BYTES} bytes, "
        f"{format_number(RATE)} bytes/s, {1e3 * DELAY:g} ms a link"
    )
    columns = (
        *("loss", "bytes/s", "arrived", "erasure bytes/s", "erasure"),
        *("p95 ms", "NACKs", "lost parents"),
    )
    return Sheet(title, columns, rows)


def draw(points: Sequence[TierPoint], axis: Any) -> None:
    losses = [100 * each.loss for each in points]
    axis.plot(losses, [RATE * each.share for each in points], marker=".", label="dcp")
    bound = [RATE * erasure_share(each.loss) for each in points]
    axis.plot(losses, bound, color="tab:red", linestyle=":", label="erasure code, two paths")
    axis.set_ylim(0, 1.1 * RATE)
    axis.set_title("two tiers, virtual time")
    axis.set_xlabel("loss of each link, %")
    axis.set_ylabel("bytes/s")
    axis.legend()
