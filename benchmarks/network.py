"""A thousand light nodes in virtual time: what an event takes, and what the death of a gateway."""

from __future__ import annotations

import gc
import resource
import statistics
import time
from collections.abc import Callable
from typing import Any, Final

import attrs

from benchmarks.harness.lab import Lab
from benchmarks.harness.node_network import Crossings, NodeNetwork
from benchmarks.harness.report import Floor, Report, Sheet, number

DESCRIPTION: Final = "1,000 simulated nodes, 100,000 subscriptions: messages, repair, state"

SEED: Final = 4
#: Units, clusters of each, and nodes of each of these.
WIDTH: Final = 10
SUBSCRIPTIONS: Final = 100
EVENTS: Final = 1_000
#: Seconds (virtual) to wait for something at most, and between two looks.
LIMIT: Final = 120.0
LOOK: Final = 0.25
#: Seconds (virtual) of quiet that are counted.
QUIET: Final = 10.0
#: Seconds (virtual) after a gateway's death until nobody lacks anything.
FLOOR_REPAIR: Final = 5.0
FLOOR_CROSSINGS: Final = 2


@attrs.define
class Phase:
    """A part of the course."""

    name: str
    virtual: float
    real: float
    control: int
    frames: int


def run(lab: Lab) -> Report:
    """Build the network, and let things happen in it."""
    width, each, events = (3, 10, 50) if lab.quick else (WIDTH, SUBSCRIPTIONS, EVENTS)
    # A third of the time would go into looking for cycles among what a thousand nodes know.
    gc.disable()
    try:
        return _run(lab, NodeNetwork(SEED, width), each, events)
    finally:
        gc.enable()


def _run(lab: Lab, network: NodeNetwork, each: int, events: int) -> Report:
    phases: list[Phase] = []

    def phase(name: str, course: Callable[[], None]) -> Phase:
        lab.say(name)
        nodes = network.nodes
        before, now, real = nodes.counts.copy(), nodes.now, time.perf_counter()
        course()
        done = Phase(
            *(name, nodes.now - now, time.perf_counter() - real),
            *(nodes.counts[kind] - before[kind] for kind in ("control", "frames")),
        )
        phases.append(done)
        return done

    phase("linking", lambda: (network.build(), network.nodes.run(3.0))[0])
    phase("subscribing", lambda: (network.subscribe(each), _until(network, network.flowing))[0])
    quiet = phase("quiet", lambda: network.nodes.run(QUIET))
    crossings = network.watch()
    phase("publishing", lambda: _publish(network, events))
    expected = network.expected()
    network.forget()
    repairing = network.watch()
    repair = phase("a gateway dies", lambda: _gateway_dies(network, events // 5))
    return _report(network, phases, quiet, repair, crossings, repairing, expected, events)


def _until(network: NodeNetwork, reached: Callable[[], bool]) -> None:
    end = network.nodes.now + LIMIT
    while not reached() and network.nodes.now < end:
        network.nodes.run(LOOK)


def _publish(network: NodeNetwork, events: int) -> None:
    alive = network.alive()
    for _ in range(events):
        network.publish(network.random.choice(alive))
        network.nodes.run(0.005)
    _until(network, lambda: not network.missing())


def _gateway_dies(network: NodeNetwork, events: int) -> None:
    """A node at which two of the largest units meet; meanwhile others publish."""
    network.nodes.kill_node("u1c0n0")
    alive = network.alive()
    for _ in range(events):
        network.publish(network.random.choice(alive))
        network.nodes.run(0.005)
    _until(network, lambda: not network.missing())


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
    missing = network.missing()
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
                f"{sum(len(node.interests) for node in network.alive()):,} subscriptions",
                ["phase", "virtual s", "real s", "control messages", "frames"],
                [
                    [p.name, number(p.virtual), number(p.real), *map(number, (p.control, p.frames))]
                    for p in phases
                ],
            ),
            Sheet("Events", ["what", ""], [[name, number(value)] for name, value in flow.items()]),
            Sheet(
                "State of a node",
                ["what", "median", "most"],
                [
                    [name, number(statistics.median(values)), number(max(values))]
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
            "virtual time: the cores of what nodes know and send, with stub logs and matchers; "
            "links of up to 10 ms, commits of up to 10 ms; nothing is encoded but to count bytes",
            "an event's document is its number: bytes are what frames add",
            f"resident memory of the whole simulation, at most: {number(resident)} MB",
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
    alive = network.alive()
    tables = [node.knowledge.tables.snapshot() for node in alive]
    maps = [node.knowledge.map.snapshot() for node in alive]
    return {
        "tables": [each.tables for each in tables],
        "entries of tables": [each.entries for each in tables],
        "bytes of tables": [each.bytes for each in tables],
        "nodes and units of the map": [each.nodes + each.units for each in maps],
        "entries of the map": [each.entries for each in maps],
        "wants of others": [node.remote_interest_count for node in alive],
        "origins by the units that they enter": [node.traffic.snapshot().unit_entries for node in alive],
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
