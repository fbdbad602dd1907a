"""A thousand core nodes in virtual time: cost of an event, and of a gateway's death."""

from __future__ import annotations

import gc
import resource
import statistics
import time
from collections.abc import Callable
from typing import Any, Final

import attrs

from benchmarks.harness.context import BenchmarkContext
from benchmarks.harness.node_network import Crossings, NodeNetwork
from benchmarks.harness.report import Floor, Report, Sheet, format_number

DESCRIPTION: Final = "1,000 simulated nodes, 100,000 subscriptions: messages, repair, state"

SEED: Final = 4
#: Units, clusters of each, and nodes of each of these.
WIDTH: Final = 10
SUBSCRIPTIONS: Final = 100
EVENTS: Final = 1_000
#: Virtual seconds: longest wait, and interval of checks.
LIMIT: Final = 120.0
LOOK: Final = 0.25
#: Virtual seconds, for counting idle messages.
QUIET: Final = 10.0
#: Bound: virtual seconds after a gateway's death until deliveries are complete.
FLOOR_REPAIR: Final = 5.0
FLOOR_CROSSINGS: Final = 2


@attrs.define
class Phase:
    name: str
    virtual: float
    real: float
    control: int
    frames: int


def run(context: BenchmarkContext) -> Report:
    width, each, events = (3, 10, 50) if context.quick else (WIDTH, SUBSCRIPTIONS, EVENTS)
    # The search for cycles would take a third of the time.
    gc.disable()
    try:
        return _run(context, NodeNetwork(SEED, width), each, events)
    finally:
        gc.enable()


def _run(context: BenchmarkContext, network: NodeNetwork, each: int, events: int) -> Report:
    phases: list[Phase] = []

    def phase(name: str, runner: Callable[[], None]) -> Phase:
        context.report_progress(name)
        nodes = network.nodes
        before, now, real = nodes.counts.copy(), nodes.now, time.perf_counter()
        runner()
        done = Phase(
            *(name, nodes.now - now, time.perf_counter() - real),
            *(nodes.counts[kind] - before[kind] for kind in ("control", "frames")),
        )
        phases.append(done)
        return done

    def link() -> None:
        network.build()
        network.nodes.run(3.0)

    def subscribe() -> None:
        network.subscribe(each)
        _run_until(network, network.are_interests_active)

    phase("linking", link)
    phase("subscribing", subscribe)
    quiet = phase("quiet", lambda: network.nodes.run(QUIET))
    crossings = network.count_crossings()
    phase("publishing", lambda: _publish(network, events))
    expected = network.count_expected()
    network.clear_published()
    repairing = network.count_crossings()
    repair = phase("a gateway dies", lambda: _kill_gateway(network, events // 5))
    return _report(network, phases, quiet, repair, crossings, repairing, expected, events)


def _run_until(network: NodeNetwork, reached: Callable[[], bool]) -> None:
    end = network.nodes.now + LIMIT
    while not reached() and network.nodes.now < end:
        network.nodes.run(LOOK)


def _publish(network: NodeNetwork, events: int) -> None:
    alive = network.running_nodes()
    for _ in range(events):
        network.publish(network.random.choice(alive))
        network.nodes.run(0.005)
    _run_until(network, lambda: not network.count_missing())


def _kill_gateway(network: NodeNetwork, events: int) -> None:
    """It joins two of the largest units, while others publish."""
    network.nodes.kill_node("u1c0n0")
    alive = network.running_nodes()
    for _ in range(events):
        network.publish(network.random.choice(alive))
        network.nodes.run(0.005)
    _run_until(network, lambda: not network.count_missing())


def _report(
    network: NodeNetwork,
    phases: list[Phase],
    quiet: Phase,
    repair: Phase,
    crossings: Crossings,
    repairing: Crossings,
    expected: int,
    events: int,
) -> Report:
    state = _state(network)
    count = len(network.names)
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    missing = network.count_missing()
    flow = {
        "events": events,
        "deliveries an event": expected / events,
        "links crossed an event": crossings.events / events,
        "frames an event": crossings.frames / events,
        "bytes an event": crossings.bytes / events,
        "most crossings of a link by one of them": crossings.most,
        "the same while a gateway dies": repairing.most,
        "control messages a node and second, quiet": quiet.control / quiet.virtual / count,
        "missing at the end": missing,
    }
    return Report(
        name="network",
        sheets=[
            Sheet(
                f"{count:,} nodes, {len(network.nodes.links):,} links, "
                f"{sum(len(node.interests) for node in network.running_nodes()):,} subscriptions",
                ["phase", "virtual s", "real s", "control messages", "frames"],
                [
                    [
                        p.name,
                        format_number(p.virtual),
                        format_number(p.real),
                        *map(format_number, (p.control, p.frames)),
                    ]
                    for p in phases
                ],
            ),
            Sheet(
                "Events",
                ["what", ""],
                [[name, format_number(value)] for name, value in flow.items()],
            ),
            Sheet(
                "State of a node",
                ["what", "median", "most"],
                [
                    [name, format_number(statistics.median(values)), format_number(max(values))]
                    for name, values in state.items()
                ],
            ),
        ],
        floors=[
            Floor("deliveries missing at the end", missing, 1, "", at_least=False),
            Floor("repair after a gateway's death", repair.virtual, FLOOR_REPAIR, "s", False),
            Floor("crossings of a link by an event", crossings.most, FLOOR_CROSSINGS, "", False),
        ],
        notes=[
            "virtual time: real cores of network state and traffic, with stub logs and matchers; "
            "links of up to 10 ms, commits of up to 10 ms; nothing is encoded but to count bytes",
            "an event's document is its number: bytes are the overhead of frames",
            f"resident memory of the whole simulation, at most: {format_number(resident)} MB",
        ],
        figures={
            "phases": [attrs.asdict(phase) for phase in phases],
            "flow": flow,
            "state": {name: statistics.median(values) for name, values in state.items()},
            "resident_mb": resident,
        },
        draw=lambda figure: _draw(phases, state, figure),
    )


def _state(network: NodeNetwork) -> dict[str, list[float]]:
    alive = network.running_nodes()
    tables = [node.state.tables.snapshot() for node in alive]
    maps = [node.state.map.snapshot() for node in alive]
    return {
        "tables": [each.tables for each in tables],
        "entries of tables": [each.entries for each in tables],
        "bytes of tables": [each.bytes for each in tables],
        "nodes and units of the map": [each.nodes + each.units for each in maps],
        "entries of the map": [each.entries for each in maps],
        "wants of others": [node.remote_interest_count for node in alive],
        "origins by the units that they enter": [
            node.traffic.snapshot().unit_entries for node in alive
        ],
        "ways of events": [node.traffic.snapshot().destinations for node in alive],
    }


def _draw(phases: list[Phase], state: dict[str, list[float]], figure: Any) -> None:
    axes = figure.add_subplot(1, 2, 1)
    axes.barh([phase.name for phase in phases], [phase.control for phase in phases])
    axes.set_xscale("log")
    axes.invert_yaxis()
    axes.set_title("control messages")
    axes = figure.add_subplot(1, 2, 2)
    for label, of in (("most", max), ("median", statistics.median)):
        axes.barh(list(state), [of(values) for values in state.values()], label=label)
    axes.set_xscale("symlog")
    axes.invert_yaxis()
    axes.legend()
    axes.set_title("state of a node")
