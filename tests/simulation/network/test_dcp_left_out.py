"""A malicious router leaves events out, in a mesh whose nodes believe the quickest parent.

Each subscription gets each event, or a gap with its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from unittest.mock import patch

import pytest

from broker.client.received import Gap
from broker.config.stacks import DEFAULT_STACK
from broker.event.gap_reason import LEFT_OUT
from broker.event.place import Place
from broker.testing.datagram_network import DatagramFaults
from broker.testing.guarantees import Allowances, check, report
from broker.testing.simulated_reader import Reader, name_of, read, read_logs
from broker.testing.transport_network import (
    CARRIED_ONLY,
    PATTERN,
    TransportNetwork,
    at_altitude,
)
from plugins.dcp.options import DcpOptions
from plugins.dcp.sender import SequenceSender
from tests.seeds import seeds
from tests.simulation.network.dcp_mesh import LEAVES, MeshCase, address_of
from tests.simulation.network.mesh_omissions import (
    FarRanges,
    FirstOmitted,
    Omission,
    SomeOmitted,
    WideRanges,
    delay,
    omit,
)
from tests.simulation.network.test_mesh_clients import is_held, parents_of

MALICIOUS = "n2"
KINDS = (Omission, SomeOmitted, WideRanges)
REORDERED = DatagramFaults(jitter=0.01)
#: Gaps stand for events that were left out, and for no others.
ALLOWED = Allowances(
    justifies_gap=lambda key, place, gap: gap.reason == LEFT_OUT, reasons=frozenset({LEFT_OUT})
)


class TrustingMesh(MeshCase):
    """Roots n0 and n1, routers n2 and n3, and leaves with both as parents: n4, n5.

    With `is_deep` n4 and n5 are routers, and n6 is a leaf below both.
    """

    def __init__(self, *, is_deep: bool = False, confirms: bool = False) -> None:
        self.is_deep, self.is_confirming = is_deep, confirms

    def node_options(self, number: int) -> DcpOptions:
        parents = {4: (2, 3), 5: (2, 3), 6: (4, 5)}.get(number, ())
        return DcpOptions(
            udp=address_of(number),
            roots=(address_of(0), address_of(1)),
            parent_nodes=tuple(map(address_of, parents)),
            children=8,
            confirm=self.is_confirming,
        )

    @contextmanager
    def trusting_mesh(
        self, seed: int, faults: DatagramFaults = REORDERED
    ) -> Iterator[TransportNetwork]:
        """Start the nodes, with a publisher at n0 and subscriptions at each leaf."""
        count, leaves = (7, ("n6",)) if self.is_deep else (6, LEAVES)
        with self.network(seed, count, feed=DEFAULT_STACK) as network:
            self.set_faults(network.world, faults)
            for name in leaves:
                network.subscribe(f"all-{name}", name, durable="d")
                network.subscribe(f"carried-{name}", name, CARRIED_ONLY)
                network.subscribe(f"some-{name}", name, at_altitude(1, PATTERN))
            network.add_publisher("n0")
            formed = {"n4": ["n2", "n3"], "n5": ["n2", "n3"], "n6": ["n4", "n5"]}
            names = [f"n{number}" for number in range(4, count)]
            network.world.run_until(
                lambda: all(sorted(self.parents(network, each)) == formed[each] for each in names)
            )
            network.publish()
            network.world.run(1.0)
            yield network


def settle(network: TransportNetwork) -> None:
    """Wait until each subscription has each event, or a gap with its place; check the rest."""
    world, readers = network.world, [each[-1] for each in network.readers.values()]
    logs = read_logs(world)
    world.run_until(lambda: all(_has_all(each, network) for each in readers), 60.0)
    read(world, *readers, seconds=2.0)
    seen = network.observer.seen
    network.observer.record_logs(logs)
    seen.subscribers.clear()
    for client_id, processes in network.readers.items():
        network.observer.add_subscriber(client_id, processes)
    violations = check(seen, ALLOWED)
    assert not violations, report(f"{world.seed}", seen, violations)


def _has_all(reader: Reader, network: TransportNetwork) -> bool:
    reader.read()
    processes = network.readers[reader.client.client_id]
    got = {name_of(event) for each in processes for event in each.events}
    return all(
        name in got or processes[0]._is_reported(entry.flow, entry.mark)
        for name, (_, entry) in processes[0].expected(read_logs(network.world)).items()
    )


def gaps_of(network: TransportNetwork, *clients: str) -> list[str]:
    readers = [each for name, each in network.readers.items() if not clients or name in clients]
    return [gap.reason for processes in readers for each in processes for gap in each.gaps]


@pytest.fixture(autouse=True)
def parents_that_skip_nothing() -> Iterator[None]:
    """Let an honest parent bring each event. It would skip those up to an acknowledged place: then
    nobody finds out that they were left out."""
    with patch.object(SequenceSender, "_skip_to", lambda self, an: None):
        yield


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", seeds(2, 12))
def test_a_subscription_gets_each_event_that_a_parent_left_out_or_a_gap(
    seed: int, kind: type[Omission]
) -> None:
    with TrustingMesh().trusting_mesh(seed) as network:
        attack = kind(Random(seed))
        end = omit(network, MALICIOUS, attack)
        network.publish(30)
        settle(network)
        assert attack.count and all(left_out_by(network, each)[MALICIOUS] for each in LEAVES)
        end()
        # Its ranges may be ahead.
        network.publish(10)
        settle(network)
        gaps = gaps_of(network)
        network.publish(10)
        settle(network)
        assert gaps_of(network) == gaps


def test_an_event_behind_which_others_were_delivered_is_a_gap_where_it_was_wanted() -> None:
    with TrustingMesh().trusting_mesh(0) as network:
        readers = {name: processes[0] for name, processes in network.readers.items()}
        read(network.world, *readers.values())
        attack = FirstOmitted(Random(0))
        omit(network, MALICIOUS, attack)
        end = delay(network, "n3")
        # The altitude of the first event is 0.
        network.publish(3)
        read(network.world, *readers.values())
        assert gaps_of(network) == []
        end()
        settle(network)
        place = Place(network.flow_of("n0"), *attack.place)
        for name, reader in readers.items():
            gaps = [] if name.startswith("some") else [Gap(place, place, 1, LEFT_OUT)]
            assert reader.gaps == gaps, name


def test_a_client_of_the_mesh_gets_a_gap_too() -> None:
    with TrustingMesh().trusting_mesh(0) as network:
        reader = network.subscribe("client", "n4", CARRIED_ONLY, mesh_parents=2)
        network.publish(3)
        network.world.run_until(lambda: is_held(reader) and len(parents_of(reader)) == 2)
        read(network.world, reader)
        malicious, honest = parents_of(reader)
        attack = FirstOmitted(Random(0))
        omit(network, malicious, attack)
        end = delay(network, honest)
        network.publish(3)
        read(network.world, reader, seconds=0.5)
        end()
        settle(network)
        place = Place(network.flow_of("n0"), *attack.place)
        assert reader.gaps == [Gap(place, place, 1, LEFT_OUT)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", seeds(1, 8))
def test_so_does_a_subscription_further_down_the_mesh(seed: int, kind: type[Omission]) -> None:
    """The parents of n6 have believed the malicious router."""
    with TrustingMesh(is_deep=True).trusting_mesh(seed) as network:
        attack = kind(Random(seed))
        omit(network, MALICIOUS, attack)
        network.publish(40)
        settle(network)
        assert attack.count and sum(left_out_by(network, "n6").values())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", seeds(1, 8))
def test_a_subscription_that_was_away_recovers_the_events(seed: int, kind: type[Omission]) -> None:
    with TrustingMesh().trusting_mesh(seed) as network:
        world, (reader,) = network.world, network.readers["all-n4"]
        read(world, reader, seconds=2.0)
        world.kill_client(reader.client)
        attack = kind(Random(seed))
        end = omit(network, MALICIOUS, attack)
        network.publish(30)
        network.world.run(10.0)
        assert attack.count and left_out_by(network, "n4")[MALICIOUS]
        end()
        network.subscribe("all-n4", "n4", durable="d")
        settle(network)
        assert gaps_of(network, "all-n4") == []


@pytest.mark.parametrize("confirms", [False, True])
@pytest.mark.parametrize("seed", seeds(1, 8))
def test_a_range_far_ahead_of_a_log_hides_nothing(seed: int, confirms: bool) -> None:
    with TrustingMesh(confirms=confirms).trusting_mesh(seed) as network:
        attack = FarRanges(Random(seed))
        omit(network, MALICIOUS, attack)
        network.publish(30)
        settle(network)
        # Longer than any patience: the position does not jump.
        network.world.run(200.0)
        network.publish(30)
        settle(network)
        assert attack.count
        assert len(gaps_of(network, "all-n4")) < 30
        end = network.world["n0"].event_log.own_end
        for name in LEAVES:
            coverage = network.world[name].event_log.coverage
            assert coverage[network.flow_of("n0")] <= end


def left_out_by(network: TransportNetwork, name: str) -> dict[str, int]:
    parents = network.state_of(name)["parents"]
    return {each["name"]: each["left_out"] for each in parents}
