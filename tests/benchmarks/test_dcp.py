from __future__ import annotations

from benchmarks.dcp import InVirtualTime, OverSockets, report
from benchmarks.meshes.ahead import AheadRun
from benchmarks.meshes.content import ContentRun
from benchmarks.meshes.forwarding import Forwarding
from benchmarks.meshes.large import LargeMesh
from benchmarks.meshes.latency import LatencyPoint
from benchmarks.meshes.loss import LossPoint
from benchmarks.meshes.silence import Silence
from benchmarks.meshes.spliced import P2P, TCP, SplicedPoint
from benchmarks.meshes.tiers import TierPoint

OVER_SOCKETS = OverSockets(
    [Forwarding("Table 1", 10, 10_000, 64_000, 1_000.0, 4.0, 1.0, 0)],
    [LossPoint(2, 0.0, 1_000, 0, 0), LossPoint(2, 0.1, 1_000, 12, 0)],
    [SplicedPoint(TCP, 0.1, 100, 90, 60.0)],
)
IN_VIRTUAL_TIME = InVirtualTime(
    [
        LatencyPoint(parents, loss, 3.0 + 100 * loss / parents**2, 3.0, 100, 100, 0)
        for parents in (1, 2, 3)
        for loss in (0.0, 0.1)
    ],
    [TierPoint(loss, 100, 100, 21.0, 0, 0) for loss in (0.1, 0.3)],
    [ContentRun("dynamic", 100, 10, 1_200), ContentRun("static", 100, 100, 10_000)],
    [AheadRun(True, 100, 100, 60, 100), AheadRun(False, 100, 100, 100, 10)],
    LargeMesh(1_000, 4, 100, 10.0, 6.0, 0.3, 0, 200.0),
    [
        Silence(transport, host, 100, 0, pause, 1.0)
        for transport, host, pause in (
            ("dcp", "n0", 0.02),
            ("dcp", "n1", 0.4),
            ("mspaces", "n0", 5.0),
        )
    ],
    [SplicedPoint(P2P, 0.1, 100, 100, 40.0)],
)


def test_the_report_counts_missed_figures() -> None:
    made = report(OVER_SOCKETS, IN_VIRTUAL_TIME, 1.0, quick=False)
    missed = [row[:2] for row in made.sheets[0].rows if row[-1] == "MISSED"]
    assert [each[0] for each in missed] == [
        "latency, 10% loss",
        "two tiers",
        "forwarding, 10 children",
        "ahead",
        "1,000 nodes",
        "a silent host",
    ]
    assert made.notes[0] == "missed: 6 of 24"
    assert len(made.sheets) == 10
    quick = report(OVER_SOCKETS, IN_VIRTUAL_TIME, 1.0, quick=True)
    assert {row[-1] for row in quick.sheets[0].rows} == {"", "means nothing"}
