"""Contract tests for stream transports with a feeder (`request_feed`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar
from unittest.mock import patch

from broker.config.stacks import DEFAULT_STACK
from broker.event.envelope import SecurityLevel
from broker.testing.annotation_contract import AnnotationContract
from broker.testing.datagram_network import DatagramFaults
from broker.testing.transport_calls import TransportCalls
from broker.testing.transport_case import TransportCase
from broker.testing.transport_network import CARRIED, TransportNetwork, at_altitude

#: A node outside: the transport has no links to it.
OUTSIDE = "n3"


@contextmanager
def _full_links(network: TransportNetwork, name: str, far: Collection[str]) -> Iterator[None]:
    """Let the links of a node to others of the network of clusters drop frames."""
    neighbours = network.world.network_of(name).neighbours
    send = neighbours.send_droppable

    def send_to_others(message: bytes, names: Iterable[str]) -> bool:
        return send(message, [each for each in names if each not in far])

    with patch.object(neighbours, "send_droppable", send_to_others):
        yield


class FeederContract(TransportCase):
    """Mix it into the test case beside `TransportContract`."""

    fed: ClassVar[Sequence[int]] = (0,)
    """Numbers of the nodes whose transport requests a feed, below 3."""

    def isolate(self, network: TransportNetwork, name: str) -> None:
        """Let a node have no links of the transport."""
        for other in network.world.names:
            if other != name:
                network.cut_datagrams(name, other)

    @contextmanager
    def fed_network(
        self,
        seed: int,
        latency: float = 0.001,
        clearance: SecurityLevel = SecurityLevel.MED,
    ) -> Iterator[tuple[TransportNetwork, TransportCalls]]:
        """Start three nodes and one outside."""
        calls = TransportCalls()
        options: dict[str, Any] = {"feed": DEFAULT_STACK, "wrap": calls.wrap}
        with self.network(seed, 4, latency=latency, clearance=clearance, **options) as network:
            self.isolate(network, OUTSIDE)
            yield network, calls

    def test_events_of_an_origin_outside_come_by_the_feeder(self) -> None:
        for seed in self.seeds:
            with self.fed_network(seed) as (network, calls):
                names = network.world.names
                fed = [f"n{number}" for number in self.fed]
                self.assertEqual([name for name in names if calls[name].is_fed], fed)
                # A fed node may have no subscriptions of its own.
                for name in names if seed % 2 else [each for each in names if each not in fed]:
                    network.subscribe(f"all-{name}", name)
                    network.subscribe(f"some-{name}", name, at_altitude(1))
                network.add_publisher(OUTSIDE)
                network.publish()
                network.settle()
                before = {name: self._count(network, name) for name in names}
                network.publish()
                network.settle()
                network.check_states()
                for name in names[:3]:
                    requests, received = self._count(network, name)
                    self.assertEqual(requests, before[name][0], f"pages for {name}, seed {seed}")
                    if name not in fed:
                        self.assertGreaterEqual(received, before[name][1] + 10, f"{name}, {seed}")
                if isinstance(self, AnnotationContract):
                    self.check_annotations(network, calls)

    @staticmethod
    def _count(network: TransportNetwork, name: str) -> tuple[int, int]:
        return network.count_requests(name), network.state_of(name)["received"]

    def test_events_above_the_clearance_are_not_carried_on(self) -> None:
        for seed in self.seeds:
            with self.fed_network(seed, clearance=SecurityLevel.LOW) as (network, calls):
                network.subscribe("all", "n2")
                network.add_publisher(OUTSIDE)
                for _ in range(5):
                    network.publish(2, level=SecurityLevel.LOW)
                    network.publish(1, level=SecurityLevel.MED)
                network.settle()
                network.check_states()
                for number in self.fed:
                    self.assertEqual(len(calls[f"n{number}"].recovered), 10, f"seed {seed}")

    def test_no_event_of_a_feeder_is_hidden_from_new_subscriptions(self) -> None:
        for seed in self.seeds:
            with self.fed_network(seed, latency=0.05) as (network, _):
                world = network.world
                network.subscribe("reader-0", "n2", at_altitude(0))
                publishers = [network.add_publisher(name) for name in (OUTSIDE, "n1")]
                for number in range(1, 4):
                    network.subscribe(f"reader-{number}", "n2", at_altitude(number), waits=False)
                    for _ in range(20):
                        world.run(world.random.choice((0.002, 0.01, 0.04)))
                        for publisher in publishers:
                            publisher.publish(CARRIED, number)
                            publisher.publish(CARRIED, 0)
                    world.run(1.0)
                network.settle()
                network.check_states()

    def test_events_selected_before_a_feeder_knows_new_interest_are_not_hidden(self) -> None:
        """The origin knows a subscription earlier than the interest of the link to its node."""
        for seed in self.seeds:
            with self.fed_network(seed, latency=0.02) as (network, _):
                world = network.world
                self.set_faults(world, DatagramFaults(delay=0.15))
                network.subscribe("reader-0", "n2", at_altitude(0))
                publisher = network.add_publisher(OUTSIDE)
                for number in range(1, 17):
                    network.subscribe(f"reader-{number}", "n2", at_altitude(number), waits=False)
                    world.run(world.random.uniform(0.0, 0.35))
                    # One batch: a missing range would bring both from the log.
                    publisher.publish(CARRIED, number)
                    publisher.publish(CARRIED, 0)
                    world.run(1.5)
                network.settle()
                network.check_states()

    def test_events_that_waited_for_a_page_are_not_hidden_from_new_subscriptions(self) -> None:
        """The frames that wait were selected by older interest, and the page ends before them."""
        for seed in self.seeds:
            small_pages = patch("broker.cluster.log_page_server.PAGE_EVENTS", 3)
            with small_pages, self.fed_network(seed, latency=0.02) as (network, _):
                world = network.world
                self.set_faults(world, DatagramFaults(delay=0.15))
                network.subscribe("reader-0", "n2", at_altitude(0))
                publisher = network.add_publisher(OUTSIDE)
                for number in range(1, 9):
                    network.subscribe(f"reader-{number}", "n2", at_altitude(number), waits=False)
                    world.run(world.random.uniform(0.0, 0.35))
                    with _full_links(network, OUTSIDE, [f"n{each}" for each in self.fed]):
                        publisher.publish(CARRIED, 0)
                        world.run(0.03)
                    for _ in range(6):
                        publisher.publish(CARRIED, number)
                        publisher.publish(CARRIED, 0)
                        world.run(0.01)
                    world.run(2.5)
                network.settle()
                network.check_states()

    def test_nodes_of_a_feeder_and_behind_it_restart(self) -> None:
        for seed in self.seeds:
            with self.fed_network(seed) as (network, _):
                self.subscribe_and_publish(network, (OUTSIDE, "n1"))
                for name in network.world.random.sample(network.world.names, 4):
                    network.kill(name)
                    network.publish(3)
                    network.world.run(network.world.random.choice((0.0, 8.0)))
                    network.world.start(name)
                    network.publish(5)
                network.settle()
                network.check_states()

    def test_faults_of_both_networks_lose_no_event(self) -> None:
        for seed in self.seeds:
            with self.fed_network(seed) as (network, _):
                world = network.world
                self.subscribe_and_publish(network, (OUTSIDE, "n1"))
                self.set_faults(world, DatagramFaults(loss=0.3, jitter=0.05))
                for number in (*self.fed, *self.fed):
                    other = world.random.choice([n for n in world.names if n != f"n{number}"])
                    world.cut(f"n{number}", other, refuse=True)
                    network.publish(5)
                    world.run(world.random.choice((0.5, 5.0)))
                    world.heal(f"n{number}", other)
                    network.publish(5)
                network.settle()
                network.check_states()
