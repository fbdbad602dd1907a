"""Contract tests for stream transports that promise one order (`Guarantee.ONE_ORDER`)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain, combinations

from broker.client.received import ALL
from broker.event.flow import origin_of
from broker.testing.datagram_network import DatagramFaults
from broker.testing.simulated_reader import EventName, name_of
from broker.testing.transport_calls import EventPlace, TransportCalls
from broker.testing.transport_case import TransportCase
from broker.testing.transport_network import CARRIED, TransportNetwork, at_altitude


class OneOrderContract(TransportCase):
    """Mix it into the test case beside `TransportContract`.

    The order is checked in a good network only: events that come from a log have no place in it.
    """

    def test_two_nodes_deliver_events_of_both_in_one_order(self) -> None:
        self._check_one_order(2, self.seeds)

    def test_three_nodes_deliver_events_of_all_in_one_order(self) -> None:
        self._check_one_order(3, self.seeds)

    def test_nine_nodes_deliver_events_of_all_in_one_order(self) -> None:
        self._check_one_order(9, self.seeds[:1])

    def _check_one_order(self, count: int, seeds: Sequence[int]) -> None:
        for seed in seeds:
            with self.network(seed, count) as network:
                names = network.world.names
                self.set_faults(network.world, DatagramFaults(jitter=0.02))
                for name in names:
                    network.subscribe(f"all-{name}", name, waits=False)
                readers = [
                    network.subscribe(f"some-{name}", name, at_altitude(1)) for name in names
                ]
                for name in names:
                    network.add_publisher(name)
                network.publish()
                network.settle()
                network.check_states()
                self.check_order(network)
                for reader, name in zip(readers, names, strict=True):
                    for origin in names:
                        network.check_marks(reader, origin)
                    self.assertEqual(reader.wrong_liveness, [], name)

    def check_order(
        self, network: TransportNetwork, without: Collection[EventPlace] = frozenset()
    ) -> None:
        """Check that all processes of clients got carried events in one order."""
        orders = [
            [
                name_of(event)
                for event in reader.events
                if event.header.stream == CARRIED
                and (origin_of(event.place.origin), event.place.mark) not in without
            ]
            for reader in chain.from_iterable(network.readers.values())
        ]
        self.assertGreater(max(map(len, orders)), 0, "nothing has come in order")
        for one, other in combinations(orders, 2):
            self.assertEqual(*_common(one, other), f"seed {network.world.seed}")

    def test_subscriptions_that_begin_or_continue_later_get_the_same_order(self) -> None:
        for seed in self.seeds:
            calls = TransportCalls()
            with self.network(seed, wrap=calls.wrap) as network:
                self.subscribe_and_publish(network, network.world.names)
                away = network.readers["all-n1"][0]
                away.read()
                network.world.kill_client(away.client)
                network.publish()
                network.subscribe("all-n1", "n1", durable="d", waits=False)
                for name in network.world.names:
                    network.subscribe(f"late-{name}", name, waits=False)
                    network.subscribe(f"past-{name}", name, start=ALL, waits=False)
                network.publish()
                network.settle()
                network.check_states()
                # The transport need not order events that changed interest brings from a log.
                recovered = set().union(*(each.recovered for each in calls.values()))
                self.check_order(network, recovered)

    def test_faults_neither_lose_nor_repeat_events_of_several_publishers(self) -> None:
        kinds = (
            DatagramFaults(loss=0.3),
            DatagramFaults(duplication=0.5, jitter=0.1),
            DatagramFaults(corruption=0.2),
            DatagramFaults(loss=1.0),
        )
        for seed in self.seeds:
            with self.network(seed) as network:
                self.subscribe_and_publish(network, network.world.names)
                for faults in network.world.random.sample(kinds, len(kinds)):
                    self.set_faults(network.world, faults)
                    network.publish(5)
                    network.world.run(network.world.random.choice((0.0, 3.0)))
                network.settle()
                network.check_states()

    def test_a_cut_neither_loses_nor_repeats_events_of_several_publishers(self) -> None:
        for seed in self.seeds:
            with self.network(seed) as network:
                names = network.world.names
                self.subscribe_and_publish(network, names)
                for away in network.world.random.sample(names, 2):
                    network.cut(away)
                    network.publish(5)
                    network.world.run(network.world.random.choice((1.0, 20.0)))
                    network.heal(away)
                    network.publish(5)
                network.settle()
                network.check_states()

    def test_restarts_neither_lose_nor_repeat_events_of_several_publishers(self) -> None:
        for seed in self.seeds:
            with self.network(seed) as network:
                names = network.world.names
                self.subscribe_and_publish(network, names)
                for name in network.world.random.sample(names, len(names)):
                    network.kill(name)
                    network.publish(3)
                    network.world.run(network.world.random.choice((0.0, 8.0)))
                    network.world.start(name)
                    network.publish(5)
                network.settle()
                network.check_states()


def _common(
    one: Sequence[EventName], other: Sequence[EventName]
) -> tuple[list[EventName], list[EventName]]:
    """Return the events of both, in the order of each."""
    both = {*one} & {*other}
    return [each for each in one if each in both], [each for each in other if each in both]
