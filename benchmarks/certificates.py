"""Cost of order certificates: sites of one group, with and without signing keys.

The publisher is at site `a`, the subscriber at `c`. Runs alternate, so that a disturbance hits all.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from benchmarks.actors.subscribe import EVERYTHING
from benchmarks.harness.actor import Actor
from benchmarks.harness.context import BenchmarkContext
from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.harness.flow import TIMEOUT
from benchmarks.harness.node_process import NodeProcess
from benchmarks.harness.node_status import read_status
from benchmarks.harness.report import Floor, Report, Sheet, format_number
from benchmarks.harness.usage import cpu_seconds
from broker.order_certificates.signing_key import SigningKey
from examples.free_ports import free_port

DESCRIPTION: Final = "processor time that signing the order of events costs the sites of a group"

SITES: Final = "abc"
ORDERS: Final = ("hybrid", "sequencer")
#: Events in a PUBLISH message.
BATCH: Final = 100
ROUNDS: Final = 5
EVENTS: Final = 6_000
WARM_UP: Final = 2_000
#: Carried by the sites on the reference machine.
RATE: Final = 1_000.0
#: Of the rate without certificates.
FLOOR: Final = 0.9
_PATIENCE: Final = 30.0
_GLANCE: Final = 0.2
_QUEUE: Final = "[queue]\nevents = 1000000\n"


@attrs.frozen
class Run:
    order: str
    is_signed: bool
    events: int
    seconds: float
    cpu: Sequence[float]
    """Processor seconds of each site."""
    signatures: int

    @property
    def microseconds(self) -> float:
        """Processor time of all sites for one event."""
        return 1e6 * sum(self.cpu) / self.events


def run(context: BenchmarkContext) -> Report:
    rounds = 1 if context.quick else ROUNDS
    portions = [200, 400] if context.quick else [WARM_UP, EVENTS]
    runs = []
    for number in range(1, rounds + 1):
        for order in ORDERS:
            for is_signed in (False, True):
                with_keys = "with" if is_signed else "without"
                context.report_progress(f"round {number} of {rounds}: {order}, {with_keys} keys")
                runs.append(_measure(context, order, portions, is_signed=is_signed))
    return report(runs)


def _measure(
    context: BenchmarkContext, order: str, portions: Sequence[int], *, is_signed: bool
) -> Run:
    """The last portion is measured."""
    with context.empty_folder() as folder:
        nodes = _start_sites(context, folder, order, is_signed=is_signed)
        task: dict[str, Any] = {"endpoint": nodes[-1].endpoint, "subscribers": 1}
        subscriber = Actor(
            context.children, "subscribe", {**task, "portions": portions, "query": EVERYTHING}
        )
        task = {"endpoint": nodes[0].endpoint, "batch": BATCH, "rate": RATE, "portions": portions}
        subscriber.wait_for("ready", TIMEOUT)
        publisher = Actor(context.children, "publish_prebuilt", task)
        for index in range(len(portions)):
            publisher.wait_for("ready", TIMEOUT)
            if index:
                subscriber.wait_for("ready", TIMEOUT)
            before = [cpu_seconds(node.pid) for node in nodes]
            subscriber.start_run()
            publisher.start_run()
            sent = publisher.wait_for("done", TIMEOUT)
            came = subscriber.wait_for("done", TIMEOUT)
            used = [cpu_seconds(node.pid) - past for node, past in zip(nodes, before, strict=True)]
        publisher.stop()
        subscriber.stop()
        states = [_stack_of(node) for node in nodes]
        for node in nodes:
            node.stop()
    if any(row.get("different") or row.get("rejected") for each in states for row in each["peers"]):
        raise BenchmarkFailed(f"the sites do not agree: {states}")
    signatures = sum(each.get("certificate_signatures", 0) for each in states)
    seconds = came["ended"] - sent["began"]
    return Run(order, is_signed, portions[-1], seconds, used, signatures)


def _start_sites(
    context: BenchmarkContext, folder: Path, order: str, *, is_signed: bool
) -> list[NodeProcess]:
    ports = [free_port() for _ in SITES]
    sites = _table({site: f"tcp:host=127.0.0.1:port={free_port()}" for site in SITES})
    keys = {site: SigningKey.generate() for site in SITES}
    nodes = []
    for number, site in enumerate(SITES):
        own = folder / site
        own.mkdir()
        signing = ""
        if is_signed:
            keys[site].store(folder / f"{site}.key")
            public = _table({each: str(key.public) for each, key in keys.items()})
            signing = f'signing_key = "{folder / site}.key"\nsite_keys = {public}\n'
        seeds = [f"127.0.0.1:{port}" for port in ports[:number]]
        configuration = (
            f'[network]\ncluster = "bench"\n'
            f'listen = ["tcp:port={ports[number]}:interface=127.0.0.1"]\njoin = {seeds}\n'
            f'[streams.">"]\nstack = "group"\n'
            f'[stacks.group]\nuse = "rcm"\norder = "{order}"\nsites = {sites}\n{signing}'
        )
        nodes.append(NodeProcess(context.children, own, configuration + _QUEUE, site))
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
    for order in ORDERS:
        plain = _median(runs, order, is_signed=False)
        signed = _median(runs, order, is_signed=True)
        for is_signed, cost in ((False, plain), (True, signed)):
            alike = [each for each in runs if (each.order, each.is_signed) == (order, is_signed)]
            rows.append(
                (
                    *(order, "yes" if is_signed else "no", format_number(cost)),
                    format_number(min(each.microseconds for each in alike)),
                    format_number(max(each.microseconds for each in alike)),
                    f"{_rate(runs, order) if is_signed else 1.0:.3f}",
                    str(statistics.median(_signatures(alike))),
                )
            )
        rate = _rate(runs, order)
        floors.append(Floor(f"{order}, rate with certificates", rate, FLOOR, "of that without"))
    return Report(
        name="certificates",
        sheets=[
            Sheet(
                "Processor time of three sites for an event, median of the runs",
                ("order", "signed", "us", "least", "most", "rate", "signatures"),
                rows,
            )
        ],
        floors=floors,
        notes=[
            f"{runs[0].events:,} events, {RATE:,.0f} a second in messages of {BATCH}, from a "
            "publisher at a; a subscriber at c gets all of them",
            "rate: events for the same processor time, without certificates = 1; median of "
            "neighbouring runs",
            "signatures: of all three sites, the warm-up included",
        ],
        figures={"runs": [{**attrs.asdict(each), "us": each.microseconds} for each in runs]},
        draw=lambda figure: _draw(runs, figure),
    )


def _signatures(runs: Sequence[Run]) -> list[int]:
    return [each.signatures for each in runs]


def _rate(runs: Sequence[Run], order: str) -> float:
    """Return the median of the ratios of neighbouring runs."""
    plain, signed = (
        [each.microseconds for each in runs if (each.order, each.is_signed) == (order, is_signed)]
        for is_signed in (False, True)
    )
    return statistics.median(one / other for one, other in zip(plain, signed, strict=True))


def _median(runs: Sequence[Run], order: str, *, is_signed: bool) -> float:
    return statistics.median(
        each.microseconds for each in runs if (each.order, each.is_signed) == (order, is_signed)
    )


def _draw(runs: Sequence[Run], figure: Any) -> None:
    axis = figure.subplots()
    for offset, is_signed in ((-0.2, False), (0.2, True)):
        places = [place + offset for place in range(len(ORDERS))]
        heights = [_median(runs, order, is_signed=is_signed) for order in ORDERS]
        axis.bar(places, heights, 0.4, label="with certificates" if is_signed else "without")
    axis.set_xticks(range(len(ORDERS)), ORDERS)
    axis.set_ylabel("us of processor time for an event, three sites")
    axis.legend()
