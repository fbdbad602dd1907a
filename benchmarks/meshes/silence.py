"""A host falls silent: the pause at a subscriber, over a mesh and over `mspaces` (DCP D41, D57).

Whole nodes in virtual time. The subscriber's node is in a second cluster. Over `mspaces` its events
come through a gateway, over the mesh from two routers. These are on the hosts `n0` and `n1`, of
which one falls silent. The publisher is at a third host, which is a root of the mesh.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import Any, Final

import attrs

from benchmarks.harness.report import Sheet, format_number
from benchmarks.sites.finding import Finding
from broker.client.effects import EventBatch
from broker.config.stacks import DEFAULT_STACK, StackInstance
from broker.event.envelope import SecurityLevel
from broker.testing.determinism import deterministic
from broker.testing.simulated_network import NetworkWorld
from broker.testing.transport_network import CARRIED, INSTANCE, TransportNetwork
from plugins.dcp.options import DcpOptions
from plugins.dcp.plugin import dcp_transport
from plugins.dcp.stack import DcpLinkOptions, dcp_links

#: Events a second over each transport: the pause of `mspaces` is that of its timers.
RATES: Final = {"dcp": 1_000, "mspaces": 50}
QUICK_RATE: Final = 50
#: Virtual seconds before the silence, and after it.
_BEFORE: Final = 1.0
AFTER: Final = {"dcp": 5.0, "mspaces": 40.0}
QUICK_AFTER: Final = 0.5
#: Most of the pause of `mspaces`; share of the events that are at most `WITHIN` seconds later than
#: the mean before. That mean has the commits at two simulated disks, which are slow.
SHARE: Final = 1 / 20
LEAST_WITHIN: Final = 0.99
WITHIN: Final = 0.02
_LATENCY: Final = 0.001
_NODES: Final = 6
_READER, _PUBLISHER = "n5", "n2"
_ROOTS: Final = ("n2", "n3")
#: Routers of the mesh, and gateways of the clusters.
HOSTS: Final = ("n0", "n1")


@attrs.frozen
class Silence:
    transport: str
    silent: str
    """The host."""
    events: int
    """Published from the silence on."""
    missing: int
    pause: float
    """Longest time between two arrivals from then on, in seconds."""
    within: float
    """Share of these events that were at most `WITHIN` later than the mean before."""


def measure(transport: str, silent: str, rate: int, after: float, seed: int = 7) -> Silence:
    """Publish `rate` events a second, `after` seconds long from the silence on."""
    with deterministic(seed), NetworkWorld(seed, latency=_LATENCY) as world:
        network = TransportNetwork(world, (dcp_transport, dcp_links), _make_stack)
        network.add_nodes(_NODES, is_carried=transport == "dcp")
        reader = network.subscribe("reader", _READER)
        publisher = network.add_publisher(_PUBLISHER)
        if transport == "dcp":
            world.run_until(lambda: len(network.state_of(_READER)["parents"]) == len(HOSTS))
        world.run(2.0)
        arrivals: list[float] = []
        subscription: Any = reader.subscription
        arrived = subscription.receive_item

        def note(item: Any) -> None:
            if isinstance(item, EventBatch):
                arrivals.extend([world.clock.seconds()] * len(item.events))
            arrived(item)
            reader.read()

        subscription.receive_item = note

        def publish(seconds: float) -> list[float]:
            times = []
            for _ in range(round(seconds * rate)):
                publisher.publish(CARRIED, 0)
                times.append(world.clock.seconds())
                world.run(1 / rate)
            return times

        earlier = publish(_BEFORE)
        for other in world.names:
            if other != silent:
                world.silence(silent, other)
                world.silence(other, silent)
                world.cut_transports(silent, other)
        begin = world.clock.seconds()
        published = publish(after)
        world.run_until(lambda: len(arrivals) == len(earlier) + len(published), 120.0)
        later = arrivals[len(earlier) :]
        usual = mean(there - here for here, there in zip(earlier, arrivals, strict=False))
        delays = [there - here for here, there in zip(published, later, strict=True)]
        ends = zip([begin, *later], later, strict=False)
        return Silence(
            *(transport, silent, len(published), len(published) - len(later)),
            max(there - here for here, there in ends),
            sum(each <= usual + WITHIN for each in delays) / len(delays),
        )


def _make_stack(number: int) -> StackInstance:
    name = f"n{number}"
    options = DcpOptions(
        udp=_address(name),
        roots=tuple(map(_address, _ROOTS)),
        parent_nodes=() if name in (*_ROOTS, *HOSTS) else tuple(map(_address, HOSTS)),
    )
    return StackInstance(
        INSTANCE,
        use=dcp_transport.name,
        links=dcp_links.name,
        feed=DEFAULT_STACK,
        clearance=SecurityLevel.MED,
        options=options,
        link_options=DcpLinkOptions(),
    )


def _address(name: str) -> str:
    return f"127.0.0.1:{9000 + int(name[1:])}"


def worst(runs: Sequence[Silence], transport: str) -> Silence:
    """Return the run with the longest pause: over `mspaces` one of the hosts carries nothing."""
    return max((each for each in runs if each.transport == transport), key=lambda each: each.pause)


def findings(runs: Sequence[Silence]) -> list[Finding]:
    mesh, other = worst(runs, "dcp"), worst(runs, "mspaces")
    name = "a silent host"
    return [
        Finding(
            name, "longest pause, to that of mspaces", mesh.pause / other.pause, "", most=SHARE
        ),
        Finding(
            *(
                name,
                f"events at most {1e3 * WITHIN:g} ms later than before",
                100 * mesh.within,
                "%",
            ),
            least=100 * LEAST_WITHIN,
        ),
        Finding(name, "events missing", mesh.missing + other.missing, "", most=0),
    ]


def make_sheet(runs: Sequence[Silence]) -> Sheet:
    rows = [
        (
            *(each.transport, each.silent, format_number(each.events), str(each.missing)),
            *(f"{1e3 * each.pause:,.1f}", f"{100 * each.within:.2f}"),
        )
        for each in runs
    ]
    columns = (
        *("transport", "silent host", "events from then on", "missing", "longest pause ms"),
        f"% at most {1e3 * WITHIN:g} ms later",
    )
    return Sheet("A host falls silent, in virtual time", columns, rows)
