"""Cost of order certificates and of compared variants, at the sites of a group.

The publisher is at site `a`, the subscriber at `c`. Groups with and without these parts run at the
same time, so that a disturbance hits all.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from benchmarks.harness.context import BenchmarkContext
from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.harness.measured_nodes import QUEUE, MeasuredNodes, Portion
from benchmarks.harness.node_process import NodeProcess
from benchmarks.harness.node_status import read_status
from benchmarks.harness.report import Floor, Report, Sheet, format_number
from broker.order_certificates.signing_key import SigningKey
from broker.signatures.node_key import FILE_NAME
from examples.free_ports import free_port

DESCRIPTION: Final = "processor time that certificates and compared variants cost a group"

SITES: Final = "abc"
NOTHING, CERTIFICATES, COMPARISON = "nothing", "certificates", "comparison"
#: The orders, and what is measured beside them.
MEASURED: Final = {
    "hybrid": (NOTHING, CERTIFICATES, COMPARISON),
    "sequencer": (NOTHING, CERTIFICATES),
}
#: Of the rate of a group with nothing beside its order.
FLOORS: Final = {CERTIFICATES: 0.9, COMPARISON: 2 / 3}
#: Events in a PUBLISH message.
BATCH: Final = 100
ROUNDS: Final = 5
EVENTS: Final = 6_000
WARM_UP: Final = 2_000
#: Events a second in each group; the reference machine carries those of all.
RATE: Final = 1_000.0
_PATIENCE: Final = 30.0
_GLANCE: Final = 0.2
_COMPARE: Final = 'compare = ["logical", "sequencer", "real-time", "hybrid"]\n'


@attrs.frozen
class Run:
    order: str
    extra: str
    """What runs beside the order."""
    portion: Portion
    signatures: int

    @property
    def microseconds(self) -> float:
        """Processor time of all sites for one event."""
        return 1e6 * sum(self.portion.cpu) / self.portion.events


def run(context: BenchmarkContext) -> Report:
    rounds = 1 if context.quick else ROUNDS
    portions = [200, 400] if context.quick else [WARM_UP, EVENTS]
    runs = []
    for number in range(1, rounds + 1):
        for order in MEASURED:
            context.report_progress(f"round {number} of {rounds}: {order}")
            runs += measure_order(context, order, portions)
    return report(runs)


def measure_order(context: BenchmarkContext, order: str, portions: Sequence[int]) -> list[Run]:
    """Run all groups of an order at the same time. The last portion is measured."""
    publishing = {"batch": BATCH, "rate": RATE}
    with context.empty_folder() as folder:
        groups: dict[str, MeasuredNodes] = {}
        for extra in MEASURED[order]:
            nodes = _start_sites(context, folder / extra, order, extra)
            groups[extra] = MeasuredNodes(
                *(context.children, nodes, nodes[-1:], portions, publishing)
            )
        for _ in portions:
            for each in groups.values():
                each.wait_until_ready()
            for each in groups.values():
                each.start()
            measured = {extra: each.end() for extra, each in groups.items()}
        runs = []
        for extra, each in groups.items():
            each.stop()
            runs.append(Run(order, extra, measured[extra], _count_signatures(each.nodes)))
            for node in each.nodes:
                node.stop()
        return runs


def _count_signatures(nodes: Sequence[NodeProcess]) -> int:
    """Raises `BenchmarkFailed` if the sites do not agree."""
    states = [_stack_of(node) for node in nodes]
    peers = [row for each in states for row in each["peers"]]
    if any(row.get("different") or row.get("rejected") for row in peers):
        raise BenchmarkFailed(f"the sites do not agree: {states}")
    return sum(each.get("certificate_signatures", 0) for each in states)


def _start_sites(
    context: BenchmarkContext, folder: Path, order: str, extra: str
) -> list[NodeProcess]:
    ports = [free_port() for _ in SITES]
    sites = _table({site: f"tcp:host=127.0.0.1:port={free_port()}" for site in SITES})
    keys = {site: SigningKey.generate() for site in SITES}
    nodes = []
    for number, site in enumerate(SITES):
        own = folder / site
        own.mkdir(parents=True)
        network, further = "", _COMPARE if extra == COMPARISON else ""
        if extra == CERTIFICATES:
            (own / "data").mkdir()
            keys[site].store(own / "data" / FILE_NAME)
            named = [f"{each}:{key.public}" for each, key in keys.items()]
            network = f"public_keys = {named}\n"
            further = "certificates = true\n"
        seeds = [f"127.0.0.1:{port}" for port in ports[:number]]
        configuration = (
            f'[network]\ncluster = "bench"\n'
            f'listen = ["tcp:port={ports[number]}:interface=127.0.0.1"]\njoin = {seeds}\n{network}'
            f'[streams.">"]\nstack = "group"\n'
            f'[stacks.group]\nuse = "rcm"\norder = "{order}"\nsites = {sites}\n{further}'
        )
        nodes.append(NodeProcess(context.children, own, configuration + QUEUE, site))
    _wait_until_connected(nodes)
    return nodes


def _table(values: Mapping[str, str]) -> str:
    return "{ " + ", ".join(f'{name} = "{value}"' for name, value in values.items()) + " }"


def _wait_until_connected(nodes: Sequence[NodeProcess]) -> None:
    deadline = time.monotonic() + _PATIENCE
    for node in nodes:
        while any(row["status"] != "connected" for row in _stack_of(node)["peers"]):
            node.check()
            if time.monotonic() > deadline:
                raise BenchmarkFailed(f"the sites did not connect in {_PATIENCE:g} s")
            time.sleep(_GLANCE)


def _stack_of(node: NodeProcess) -> dict[str, Any]:
    (found,) = (each for each in read_status(node.endpoint)["stacks"] if each["name"] == "group")
    return dict(found)


def report(runs: Sequence[Run]) -> Report:
    rows, floors = [], []
    for order, extras in MEASURED.items():
        for extra in extras:
            ours = _select(runs, order, extra)
            costs = [each.microseconds for each in ours]
            rate = _rate(runs, order, extra)
            rows.append(
                (
                    *(order, extra, format_number(statistics.median(costs))),
                    *(format_number(min(costs)), format_number(max(costs)), f"{rate:.3f}"),
                    str(statistics.median([each.signatures for each in ours])),
                )
            )
            if extra in FLOORS:
                floors.append(
                    Floor(f"{order}, rate with {extra}", rate, FLOORS[extra], "of that without")
                )
    return Report(
        name="group",
        sheets=[
            Sheet(
                "Processor time of three sites for an event, median of the runs",
                ("order", "beside it", "us", "least", "most", "rate", "signatures"),
                rows,
            )
        ],
        floors=floors,
        notes=[
            f"{runs[0].portion.events:,} events, {RATE:,.0f} a second in messages of {BATCH}, from "
            "a publisher at a; a subscriber at c gets all of them; all groups of an order run at "
            "the same time",
            "rate: events for the same processor time, with nothing beside the order = 1; median "
            "of simultaneous runs",
            "signatures: of all three sites, the warm-up included",
        ],
        figures={"runs": [{**attrs.asdict(each), "us": each.microseconds} for each in runs]},
        draw=lambda figure: _draw(runs, figure),
    )


def _select(runs: Sequence[Run], order: str, extra: str) -> list[Run]:
    return [each for each in runs if (each.order, each.extra) == (order, extra)]


def _rate(runs: Sequence[Run], order: str, extra: str) -> float:
    """Return the median of the ratios of simultaneous runs."""
    pairs = zip(_select(runs, order, NOTHING), _select(runs, order, extra), strict=True)
    return statistics.median(one.microseconds / other.microseconds for one, other in pairs)


def _draw(runs: Sequence[Run], figure: Any) -> None:
    axis = figure.subplots()
    bars = [(order, extra) for order, extras in MEASURED.items() for extra in extras]
    heights = [statistics.median(each.microseconds for each in _select(runs, *bar)) for bar in bars]
    axis.bar(["\n".join(bar) for bar in bars], heights)
    axis.set_ylabel("us of processor time for an event, three sites")
