"""The two ways of each event, in networks in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from two_parents import transport
from two_parents.stop_and_wait import StopAndWaitOptions, stop_and_wait
from two_parents.transport import TwoParentsOptions, two_parents

from broker.config.stacks import StackInstance
from broker.event.annotation import annotation_of
from broker.log.known_flows import stream_of
from broker.testing.simulated_network import NetworkWorld
from broker.testing.transport_network import CARRIED, INSTANCE, TransportNetwork
from tests.seeds import seeds

SEEDS = seeds(2, 20)
#: Parents of each node: a root, two nodes below it, and one below both.
DIAMOND = ((), (0,), (0,), (1, 2))


def listen_of(number: int) -> str:
    return f"127.0.0.1:{9000 + number}"


def make_stack(number: int) -> StackInstance:
    parents = tuple(map(listen_of, DIAMOND[number]))
    options = TwoParentsOptions(listen=listen_of(number), parents=parents)
    return StackInstance(
        INSTANCE, use=two_parents.name, options=options, link_options=StopAndWaitOptions()
    )


@contextmanager
def diamond(seed: int) -> Iterator[TransportNetwork]:
    with NetworkWorld(seed) as world:
        network = TransportNetwork(world, (two_parents, stop_and_wait), make_stack)
        network.add_nodes(len(DIAMOND))
        yield network


def requested(network: TransportNetwork, name: str) -> int:
    traffic = network.world.network_of(name).traffic
    assert traffic is not None
    return traffic.receiver.counts.asked


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("origin", ["n0", "n3"])
def test_events_come_on_two_ways_and_none_is_requested(seed: int, origin: str) -> None:
    with diamond(seed) as network:
        names = network.world.names
        for name in names:
            network.subscribe(f"at-{name}", name)
        network.world.run(2.0)
        network.add_publisher(origin)
        for _ in range(10):
            # One event is one batch.
            network.publish(1)
            network.world.run(0.1)
        network.settle()
        network.check_states()
        assert network.state_of(origin)["published"] == 10
        for name in set(names) - {origin}:
            assert network.state_of(name)["received"] in (10, 20)
            assert requested(network, name) == 0
        doubled = "n3" if origin == "n0" else "n0"
        assert network.state_of(doubled)["repeated"] == 10


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("fault", ["dead parent", "cut"])
def test_events_of_one_way_are_not_requested_while_the_other_is_broken(
    seed: int, fault: str
) -> None:
    with diamond(seed) as network:
        faults: dict[str, Callable[[], object]] = {
            "dead parent": lambda: network.kill("n1"),
            "cut": lambda: network.cut_datagrams("n1", "n3"),
        }
        for name in ("n0", "n3"):
            network.subscribe(f"at-{name}", name)
        network.world.run(2.0)
        network.add_publisher("n0")
        network.publish()
        faults[fault]()
        network.publish()
        network.settle()
        network.check_states()
        assert requested(network, "n3") == 0


def hops_at(network: TransportNetwork, name: str) -> set[bytes]:
    """Return the annotations of the carried events in a node's log."""
    world = network.world
    events = world.wait(world[name].event_log.read(1, 9_999, 1 << 30))
    return {annotation_of(each.record) for each in events if stream_of(each.record) == CARRIED}


def test_the_log_has_the_links_of_each_event() -> None:
    with diamond(1) as network:
        for name in network.world.names:
            network.subscribe(f"at-{name}", name)
        network.world.run(2.0)
        network.add_publisher("n0")
        network.publish()
        network.settle()
        names = network.world.names
        assert [hops_at(network, name) for name in names] == [{b"\0"}, {b"\1"}, {b"\1"}, {b"\2"}]


def test_an_event_with_too_many_links_is_rejected_and_comes_from_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transport, "MOST_HOPS", 1)
    with diamond(1) as network:
        network.subscribe("at-n3", "n3")
        network.world.run(2.0)
        network.add_publisher("n0")
        for _ in range(10):
            # One event is one batch.
            network.publish(1)
            network.world.run(0.1)
        network.settle()
        network.check_states()
        assert network.state_of("n3")["received"] == 0
        assert network.state_of("n3")["rejected"] == 20
        assert hops_at(network, "n3") == {b"\0"}
