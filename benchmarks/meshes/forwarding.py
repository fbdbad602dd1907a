"""Rate at which one router forwards documents to its children over UDP (DCP D72, D80, D81)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from benchmarks.harness.actor import Actor
from benchmarks.harness.context import BenchmarkContext
from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.harness.report import Sheet, format_number
from benchmarks.harness.usage import cpu_seconds
from benchmarks.meshes.documents import events
from benchmarks.meshes.matching import EVERYTHING
from benchmarks.meshes.udp_node import SOCKETS, count_unread
from benchmarks.routing.engine import ENGINE, Engine, load_dtds
from benchmarks.sites.finding import Finding
from benchmarks.workloads.flights import TABLE_1, flight_queries

ROUNDS: Final = 3
DOCUMENTS: Final = 50_000
QUICK_DOCUMENTS: Final = 3_000
CHILDREN: Final = (1, 5, 10, 20)
#: Of the figures.
TEN: Final = 10
#: Mbit/s of documents to all children: ten times the prototype of the paper.
FLOOR: Final = 180.0
_DISTINCT_QUERIES: Final = 1_000
_TIMEOUT: Final = 300.0

EVERY_EVENT, PAPER, DISTINCT = "true()", "Table 1", "1,000 distinct"


@attrs.frozen
class Forwarding:
    queries: str
    """Of the children: one of `EVERY_EVENT`, `PAPER` (one of the four for each child in turn),
    `DISTINCT` (each child has its share)."""
    children: int
    documents: int
    """Published."""
    copies: int
    """Documents to all children."""
    document_bytes: float
    """Mean of a document: an event with its envelope."""
    seconds: float
    """From the last document of the warm-up at all children, to the last one."""
    router_cpu: float
    """Processor seconds of the router's process."""
    dropped: int
    """Datagrams that the system dropped."""

    @property
    def rate(self) -> float:
        """Documents a second, into the router."""
        return self.documents / self.seconds

    @property
    def megabits(self) -> float:
        """Mbit/s of documents to all children."""
        return self.copies * self.document_bytes * 8 / 1e6 / self.seconds

    @property
    def busy_share(self) -> float:
        """Share of a processor that the router used."""
        return self.router_cpu / self.seconds


def measure_all(context: BenchmarkContext) -> list[Forwarding]:
    """Measure the case of the figure in several rounds, and the others once."""
    documents = QUICK_DOCUMENTS if context.quick else DOCUMENTS
    rounds = 1 if context.quick else ROUNDS
    cases = [(PAPER, TEN)] * rounds
    cases.append((DISTINCT, TEN))
    if not context.quick:
        cases.append((EVERY_EVENT, TEN))
        cases += [(PAPER, children) for children in CHILDREN if children != TEN]
    runs = []
    for number, (queries, children) in enumerate(cases, 1):
        context.report_progress(f"forwarding: run {number} of {len(cases)}")
        runs.append(measure(context, queries, children, documents))
    return runs


def queries_of(queries: str, children: int) -> list[list[str]]:
    """Return the queries of each child."""
    if queries == EVERY_EVENT:
        return [[EVERYTHING] for _ in range(children)]
    if queries == PAPER:
        return [[TABLE_1[number % len(TABLE_1)]] for number in range(children)]
    texts = [text for _, text in flight_queries(_DISTINCT_QUERIES)]
    return [texts[number::children] for number in range(children)]


def count_copies(queries: Sequence[Sequence[str]], ans: range) -> int:
    """Return the number of documents that all children must get of these ANs."""
    engine = Engine(ENGINE, load_dtds())
    child_of = {
        engine.add(text, {}): child for child, texts in enumerate(queries) for text in texts
    }
    counts = [len({child_of[each] for each in found}) for found in engine.match_each(events())]
    return sum(counts[an % len(counts)] for an in ans)


def measure(context: BenchmarkContext, queries: str, children: int, documents: int) -> Forwarding:
    """Run the router in one process, and the root and the leaves in another one.

    Raises `BenchmarkFailed` if another number of documents arrives than the queries select.
    """
    warm_up, texts = documents // 5, queries_of(queries, children)
    task = {"queries": texts, "documents": documents, "warm_up": warm_up}
    leaves = Actor(context.children, "mesh_leaves", task)
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
    copies = count_copies(texts, range(warm_up + 1, warm_up + documents + 1))
    if done["arrived"] != copies:
        raise BenchmarkFailed(f"{done['arrived']} documents arrived, {copies} are selected")
    sizes = [len(each) for each in events()]
    mean = sum(sizes) / len(sizes)
    return Forwarding(*(queries, children, documents, copies, mean, done["seconds"], cpu, dropped))


def find_median(runs: Sequence[Forwarding]) -> Forwarding:
    """Return the run of the median rate, with ten children and the paper's queries."""
    found = [each for each in runs if (each.queries, each.children) == (PAPER, TEN)]
    return sorted(found, key=lambda each: each.rate)[len(found) // 2]


def findings(runs: Sequence[Forwarding]) -> list[Finding]:
    result = find_median(runs)
    name = f"forwarding, {result.children} children"
    return [
        Finding(name, "documents out", result.megabits, "Mbit/s", "18 Mbit/s", FLOOR),
        Finding(name, "documents out", result.copies / result.seconds, "/s", "8,588 /s"),
        Finding(
            *(name, "documents out for a second of the router's processor time"),
            *(result.megabits / result.busy_share, "Mbit"),
        ),
    ]


def make_sheet(runs: Sequence[Forwarding]) -> Sheet:
    rows = [
        (
            *(each.queries, str(each.children), format_number(each.documents)),
            *(format_number(each.rate), format_number(each.copies / each.seconds)),
            format_number(each.megabits),
            f"{1e6 * each.router_cpu / each.documents:.1f}",
            *(f"{each.busy_share:.2f}", str(each.dropped)),
        )
        for each in runs
    ]
    columns = (
        *("queries", "children", "documents", "documents/s", "out/s", "Mbit/s out"),
        *("router CPU us/document", "router's processor", "dropped"),
    )
    return Sheet("One router forwards events to children, over UDP", columns, rows)
