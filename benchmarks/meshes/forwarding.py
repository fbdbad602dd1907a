"""Rate at which one router forwards documents to ten children over UDP (DCP D72, D80)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from benchmarks.harness.actor import Actor
from benchmarks.harness.context import BenchmarkContext
from benchmarks.harness.flights import PAYLOAD_BYTES
from benchmarks.harness.report import Sheet, format_number
from benchmarks.harness.usage import cpu_seconds
from benchmarks.meshes.udp_node import SOCKETS, count_unread
from benchmarks.sites.finding import Finding

CHILDREN: Final = 10
ROUNDS: Final = 3
DOCUMENTS: Final = 50_000
QUICK_DOCUMENTS: Final = 3_000
#: Mbit/s of documents to all children: ten times the prototype of the paper.
FLOOR: Final = 180.0
_TIMEOUT: Final = 300.0


@attrs.frozen
class Forwarding:
    documents: int
    """Published."""
    children: int
    seconds: float
    """From the last document of the warm-up at all children, to the last one."""
    router_cpu: float
    """Processor seconds of the router's process."""
    dropped: int
    """Datagrams that the system dropped."""

    @property
    def rate(self) -> float:
        """Documents a second, to each child."""
        return self.documents / self.seconds

    @property
    def megabits(self) -> float:
        """Mbit/s of documents to all children."""
        return self.rate * self.children * PAYLOAD_BYTES * 8 / 1e6

    @property
    def busy_share(self) -> float:
        """Share of a processor that the router used."""
        return self.router_cpu / self.seconds


def measure_all(context: BenchmarkContext) -> list[Forwarding]:
    rounds = 1 if context.quick else ROUNDS
    runs = []
    for number in range(1, rounds + 1):
        context.report_progress(f"forwarding to ten children: round {number} of {rounds}")
        runs.append(measure(context, QUICK_DOCUMENTS if context.quick else DOCUMENTS))
    return runs


def measure(context: BenchmarkContext, documents: int) -> Forwarding:
    """Run the router in one process, and the root and the leaves in another one."""
    leaves = Actor(
        *(context.children, "mesh_leaves"),
        {"leaves": CHILDREN, "documents": documents, "warm_up": documents // 5},
    )
    root = leaves.wait_for("ready", _TIMEOUT)["address"]
    router = Actor(context.children, "mesh_router", {"parent": root})
    address = router.wait_for("ready", _TIMEOUT)["address"]
    leaves.start_run(router=address)
    leaves.wait_for("begun", _TIMEOUT)
    cpu = cpu_seconds(router.pid)
    done = leaves.wait_for("done", _TIMEOUT)
    cpu = cpu_seconds(router.pid) - cpu
    dropped = done["dropped"] + count_unread(SOCKETS.read_text(), address[1])
    leaves.stop()
    router.stop()
    return Forwarding(documents, CHILDREN, done["seconds"], cpu, dropped)


def find_median(runs: Sequence[Forwarding]) -> Forwarding:
    """Return the run of the median rate."""
    return sorted(runs, key=lambda each: each.rate)[len(runs) // 2]


def findings(runs: Sequence[Forwarding]) -> list[Finding]:
    name = "forwarding"
    result = find_median(runs)
    return [
        Finding(name, "documents out", result.megabits, "Mbit/s", "18 Mbit/s", FLOOR),
        Finding(
            *(name, "documents out for a second of the router's processor time"),
            *(result.megabits / result.busy_share, "Mbit"),
        ),
    ]


def make_sheet(runs: Sequence[Forwarding]) -> Sheet:
    rows = [
        (
            *(str(each.children), format_number(each.documents), format_number(each.rate)),
            *(format_number(each.rate * each.children), format_number(each.megabits)),
            f"{1e6 * each.router_cpu / each.documents:.1f}",
            *(f"{each.busy_share:.2f}", str(each.dropped)),
        )
        for each in runs
    ]
    columns = (
        *("children", "documents", "documents/s", "out/s", "Mbit/s out"),
        *("router CPU us/document", "router's processor", "dropped"),
    )
    title = f"One router forwards documents of {PAYLOAD_BYTES} bytes to children, over UDP"
    return Sheet(title, columns, rows)
