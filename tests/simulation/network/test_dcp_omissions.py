"""A malicious router states ranges without their events, in a mesh that confirms ranges."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from random import Random

import pytest

from broker.config.stacks import DEFAULT_STACK
from broker.testing.datagram_network import DatagramFaults
from broker.testing.transport_network import (
    EVERYTHING,
    PATTERN,
    TransportNetwork,
    at_altitude,
)
from plugins.dcp.event_range import EventRange
from plugins.dcp.options import DcpOptions
from plugins.dcp.sequences import SequenceState
from tests.seeds import seeds
from tests.simulation.network.dcp_mesh import LEAVES, ConfirmingMesh, MeshCase, address_of
from tests.simulation.network.mesh_omissions import (
    Omission,
    SomeOmitted,
    WideRanges,
    omit,
    router_of,
)

MALICIOUS = "n2"
KINDS = (Omission, SomeOmitted, WideRanges)
#: Packets of both parents come in random order.
REORDERED = DatagramFaults(jitter=0.01)


class DeepMesh(ConfirmingMesh):
    """Roots n0 and n1, routers n2 and n3, further routers n4 and n5 below both, a leaf n6."""

    def node_options(self, number: int) -> DcpOptions:
        parents = {4: (2, 3), 5: (2, 3), 6: (4, 5)}.get(number, ())
        return DcpOptions(
            udp=address_of(number),
            roots=(address_of(0), address_of(1)),
            parent_nodes=tuple(map(address_of, parents)),
            children=0 if number == 6 else 2,
            confirm=True,
        )

    @contextmanager
    def deep_mesh(self, seed: int) -> Iterator[TransportNetwork]:
        with self.network(seed, 7, feed=DEFAULT_STACK) as network:
            self.set_faults(network.world, REORDERED)
            network.subscribe("all", "n6", EVERYTHING, durable="d")
            network.subscribe("some", "n6", at_altitude(1, PATTERN))
            for name in ("n0", "n6"):
                network.add_publisher(name)
            network.world.run_until(lambda: self._has_formed(network))
            yield network
            network.settle()
            network.check_states()

    def _has_formed(self, network: TransportNetwork) -> bool:
        formed = {"n4": ["n2", "n3"], "n5": ["n2", "n3"], "n6": ["n4", "n5"]}
        return all(sorted(self.parents(network, each)) == formed[each] for each in formed)


def alarms_of(network: TransportNetwork, names: Sequence[str] = LEAVES) -> str:
    return "\n".join(text for name in names for text in network.state_of(name)["alarms"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", seeds(2, 8))
def test_the_leaves_get_all_events_and_name_the_router(seed: int, kind: type[Omission]) -> None:
    with ConfirmingMesh().mesh(seed, REORDERED) as network:
        attack = kind(Random(seed))
        omit(network, MALICIOUS, attack)
        network.publish(30)
        network.world.run(1.0)
        assert attack.count
        assert f"the parent {MALICIOUS} has left out events" in alarms_of(network)
        assert "the parent n3" not in alarms_of(network)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", seeds(1, 6))
def test_a_router_above_the_parents_hides_no_events(seed: int, kind: type[Omission]) -> None:
    with DeepMesh().deep_mesh(seed) as network:
        attack = kind(Random(seed))
        omit(network, MALICIOUS, attack)
        network.publish(30)
        network.world.run(1.0)
        assert attack.count
        assert f"the parent {MALICIOUS} has left out events" in alarms_of(network, ("n4", "n5"))
        assert "left out" not in alarms_of(network, ("n6",))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", seeds(1, 6))
def test_a_leaf_that_restarts_misses_no_events(seed: int, kind: type[Omission]) -> None:
    """At first it reaches the malicious router only."""
    with ConfirmingMesh().mesh(seed, REORDERED) as network:
        attack = kind(Random(seed))
        omit(network, MALICIOUS, attack)
        network.publish(10)
        network.kill("n5")
        network.publish(10)
        network.world.start("n5")
        network.cut_datagrams("n3", "n5")
        network.world.run_until(lambda: MeshCase.parents(network, "n5") == [MALICIOUS])
        count = attack.count
        network.publish(20)
        assert attack.count > count
        network.world.heal_transports()
        network.world.run_until(lambda: len(MeshCase.parents(network, "n5")) == 2)
        network.publish(20)


@pytest.mark.parametrize("seed", seeds(1, 6))
def test_an_honest_mesh_loses_nothing_and_raises_no_alarm(seed: int) -> None:
    with ConfirmingMesh().mesh(seed, DatagramFaults(loss=0.1, jitter=0.01)) as network:
        requests = {name: network.count_requests(name) for name in LEAVES}
        network.publish(30)
        network.world.run(3.0)
        assert "left out" not in alarms_of(network)
        assert {name: network.count_requests(name) for name in LEAVES} == requests


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", seeds(1, 6))
def test_a_leaf_that_trusts_its_parents_names_the_router(seed: int, kind: type[Omission]) -> None:
    with MeshCase().network(seed, 6, feed=DEFAULT_STACK) as network:
        case = MeshCase()
        case.set_faults(network.world, REORDERED)
        for name in LEAVES:
            network.subscribe(f"all-{name}", name)
        network.add_publisher("n0")
        network.world.run_until(lambda: all(len(case.parents(network, n)) == 2 for n in LEAVES))
        omit(network, MALICIOUS, kind(Random(seed)))
        network.publish(30)
        network.world.run(2.0)
        assert f"the parent {MALICIOUS} has left out events" in alarms_of(network)


def test_a_router_that_sends_more_than_was_requested_accuses_nobody() -> None:
    case = MeshCase()
    with case.network(0, 6, feed=DEFAULT_STACK) as network:
        for name in LEAVES:
            network.subscribe(f"some-{name}", name, at_altitude(1, PATTERN))
        network.subscribe("all", MALICIOUS)
        network.add_publisher("n0")
        network.world.run_until(lambda: all(len(case.parents(network, n)) == 2 for n in LEAVES))
        children = router_of(network, MALICIOUS).children
        forward = children.forward

        def forward_all(
            state: SequenceState, range_: EventRange, links: Sequence[frozenset[Hashable]]
        ) -> None:
            everybody = frozenset(child.link for child in children)
            forward(state, range_, [everybody for _ in links])

        children.forward = forward_all  # type: ignore[method-assign]
        network.publish(20)
        network.world.run(2.0)
        parents = [each for name in LEAVES for each in network.state_of(name)["parents"]]
        assert sum(each["first"] for each in parents) == 2 * 20
        assert alarms_of(network) == ""
        assert [each["left_out"] for each in parents] == [0, 0, 0, 0]
