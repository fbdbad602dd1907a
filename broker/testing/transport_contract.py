"""Contract tests for every implementation of ITransportPlugin, in virtual time.

Mix the class into a `unittest.TestCase` and set `plugin`, and `links` for a transport with links of
its own. Whole nodes run in one process, from seeds; a failure shows its seed.

`OneOrderContract`, `AnnotationContract` and `FeederContract` are for transports that need them.
"""

from __future__ import annotations

from collections.abc import Sequence

from zope.interface.verify import verifyObject

from broker.config.stacks import DEFAULT_STACK, Plugins
from broker.errors import BrokerError, ClearanceTooLow
from broker.event.envelope import SecurityLevel
from broker.streams.contract import Guarantee, IStreamTransport, ITransportContext, ITransportPlugin
from broker.testing.annotation_contract import AnnotationContract
from broker.testing.datagram_network import DatagramFaults
from broker.testing.feeder_contract import FeederContract
from broker.testing.hostile_transport_contract import HostileTransportContract
from broker.testing.node_process import find_timers_left
from broker.testing.one_order_contract import OneOrderContract
from broker.testing.option_contract import check_options
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.transport_calls import TransportCalls
from broker.testing.transport_network import CARRIED, TransportNetwork, at_altitude
from broker.testing.withholding_contract import WithholdingContract
from broker.transport.stacks import IProtocolStack


class TransportContract(HostileTransportContract, WithholdingContract):
    """Tests of a stream transport.

    The stream `radar.zny` is carried by the transport, `asdi.zny` by the default stack. For the
    default stack itself, tests of two stacks do nothing.
    """

    # ----------------------------------------------------------------- the description

    def test_the_plug_in_and_its_instances_implement_their_interfaces(self) -> None:
        def verified(plugins: Plugins) -> Plugins:
            plugin, links = plugins
            self.assertTrue(verifyObject(ITransportPlugin, plugin))
            if links is not None:
                self.assertTrue(verifyObject(IProtocolStack, links))
            self.assertEqual(bool(plugin.links), links is not None)
            return plugins

        with self.network(0, 2, wrap=verified) as network:
            for name in network.world.names:
                transports = network.world[name].transports
                assert transports is not None
                for instance in transports:
                    self.assertTrue(verifyObject(ITransportContext, instance))
                    self.assertTrue(verifyObject(IStreamTransport, instance._transport))
                network.check_states()

    def test_each_option_is_a_setting_whose_default_is_allowed(self) -> None:
        with NetworkWorld(0) as world:
            for plugin in self.create_plugins(world):
                if plugin is not None:
                    check_options(plugin.options)

    def test_the_parts_of_the_suite_that_the_transport_needs_are_mixed_in(self) -> None:
        calls = TransportCalls()
        with self.network(0, 2, feed=DEFAULT_STACK, wrap=calls.wrap) as network:
            needed = {
                OneOrderContract: Guarantee.ONE_ORDER in network.plugins[0].guarantees,
                AnnotationContract: any(each.is_annotating for each in calls.values()),
                FeederContract: any(each.is_fed for each in calls.values()),
            }
        for part, is_needed in needed.items():
            self.assertEqual(isinstance(self, part), is_needed, part.__name__)

    # ----------------------------------------------------------------- a good network

    def test_two_nodes_get_each_event_once_and_in_order(self) -> None:
        self._check_good_network(2, self.seeds)

    def test_three_nodes_get_each_event_once_and_in_order(self) -> None:
        self._check_good_network(3, self.seeds)

    def test_nine_nodes_get_each_event_once_and_in_order(self) -> None:
        self._check_good_network(9, self.seeds[:1])

    def _check_good_network(self, count: int, seeds: Sequence[int]) -> None:
        for seed in seeds:
            with self.network(seed, count) as network:
                names = network.world.names
                for name in names:
                    network.subscribe(f"all-{name}", name, waits=False)
                readers = [
                    network.subscribe(f"some-{name}", name, at_altitude(1)) for name in names
                ]
                for name in network.world.random.sample(names, 2):
                    network.add_publisher(name)
                    origin = name
                network.publish()
                network.settle()
                network.check_states()
                network.check_marks(readers[0], origin)
                self.assertGreater(network.state_of(origin)["published"], 0)
                reached = self.reached_nodes([name for name in names if name != origin])
                received = [network.state_of(name).get("received") for name in reached]
                # The default stack has a path of its own.
                self.assertTrue(
                    network.is_default or not reached or any(received),
                    "the transport carries nothing",
                )

    # ----------------------------------------------------------------- a bad network

    def test_lost_datagrams_lose_no_event(self) -> None:
        self._check_faults(DatagramFaults(loss=0.3))

    def test_repeated_datagrams_repeat_no_event(self) -> None:
        self._check_faults(DatagramFaults(duplication=0.5, jitter=0.02))

    def test_reordered_datagrams_change_no_order(self) -> None:
        self._check_faults(DatagramFaults(jitter=0.1))

    def test_damaged_datagrams_damage_no_event(self) -> None:
        self._check_faults(DatagramFaults(corruption=0.2))

    def test_events_come_from_the_log_when_all_datagrams_are_lost(self) -> None:
        self._check_faults(DatagramFaults(loss=1.0))

    def _check_faults(self, faults: DatagramFaults) -> None:
        for seed in self.seeds:
            with self.network(seed) as network:
                self.subscribe_and_publish(network)
                self.set_faults(network.world, faults)
                network.publish()
                network.settle()
                network.check_states()

    def test_a_node_that_was_cut_off_gets_all_events_after_the_healing(self) -> None:
        for seed in self.seeds:
            with self.network(seed) as network:
                self.subscribe_and_publish(network)
                away = f"n{seed % 3}"
                network.cut(away)
                network.publish()
                network.world.run(network.world.random.choice((1.0, 20.0)))
                network.heal(away)
                network.publish()
                network.settle()
                network.check_states()

    # ----------------------------------------------------------------- nodes

    def test_an_origin_that_restarts_takes_its_place_again(self) -> None:
        self._check_restart("n0")

    def test_a_node_in_between_that_restarts_takes_its_place_again(self) -> None:
        self._check_restart("n1")

    def test_a_subscribers_node_that_restarts_takes_its_place_again(self) -> None:
        self._check_restart("n2")

    def _check_restart(self, name: str) -> None:
        for seed in self.seeds:
            with self.network(seed) as network:
                self.subscribe_and_publish(network)
                network.kill(name)
                network.publish(5)
                network.world.run(network.world.random.choice((0.0, 8.0)))
                network.world.start(name)
                network.publish(15)
                network.settle()
                network.check_states()

    def test_a_stream_that_the_transport_carries_from_a_restart_on_loses_no_event(self) -> None:
        self._check_change(is_carried=False)

    def test_a_stream_that_the_transport_carries_until_a_restart_loses_no_event(self) -> None:
        self._check_change(is_carried=True)

    def _check_change(self, *, is_carried: bool) -> None:
        if self.is_default:
            return
        for seed in self.seeds:
            with self.network(seed, is_carried=is_carried) as network:
                self.subscribe_and_publish(network)
                names = network.world.names
                for name in network.world.random.sample(names, len(names)):
                    network.kill(name)
                    network.set_carried(name, not is_carried)
                    network.world.start(name)
                    network.publish(5)
                network.settle()

    def test_no_timer_is_left_when_a_node_has_stopped(self) -> None:
        with self.network(self.seeds[0]) as network:
            self.subscribe_and_publish(network)
            for name in network.world.names:
                network.world.stop(name)
            self.assertEqual(find_timers_left(network.world), [])

    # ----------------------------------------------------------------- subscriptions

    def test_subscriptions_that_begin_while_events_flow_get_all_that_follow(self) -> None:
        """The events of a batch may have been selected for the earlier subscriptions."""
        for seed in self.seeds:
            with self.network(seed) as network:
                world = network.world
                publisher = network.add_publisher("n0")
                # Interest is active in the network of clusters before the transport has it.
                self.set_faults(world, DatagramFaults(delay=0.1))
                network.subscribe("reader-0", "n2", at_altitude(0))
                for number in range(1, 7):
                    network.subscribe(f"reader-{number}", "n2", at_altitude(number), waits=False)
                    for _ in range(8):
                        # Commits take some ms.
                        world.run(world.random.choice((0.002, 0.01, 0.04)))
                        publisher.publish(CARRIED, number)
                        if number % 2:
                            publisher.publish(CARRIED, 0)
                    world.run(2.0)
                network.settle()
                network.check_states()

    def test_a_subscription_over_a_slow_transport_and_the_default_one_has_a_mark_of_each(
        self,
    ) -> None:
        for seed in self.seeds:
            with self.network(seed) as network:
                network.add_publisher("n0")
                self.set_faults(network.world, DatagramFaults(delay=0.2))
                reader = network.subscribe("all", "n2")
                network.publish(15)
                network.subscribe("late", "n2")
                network.publish(15)
                network.settle()
                network.check_marks(reader, "n0")
                network.check_states()

    def test_a_durable_subscription_continues_at_another_node(self) -> None:
        for seed in self.seeds:
            with self.network(seed) as network:
                world = network.world
                network.add_publisher("n0")
                self.set_faults(world, DatagramFaults(loss=0.3, delay=0.05))
                first = network.subscribe("rover", "n2", durable="d")
                network.publish()
                first.read()
                network.cut_datagrams("n0", "n1")
                network.publish()
                first.read()
                world.kill_client(first.client)
                network.publish()
                second = network.subscribe("rover", "n1", durable="d")
                second.starts_after = first.starts_after
                network.publish()
                network.settle()
                network.check_states()

    def test_events_above_the_clearance_of_the_stack_come_another_way(self) -> None:
        if self.is_default:
            return
        for seed in self.seeds:
            calls = TransportCalls()
            with self.network(seed, clearance=SecurityLevel.LOW, wrap=calls.wrap) as network:
                network.subscribe("all", "n2")
                publisher = network.add_publisher("n0")
                if calls["n0"].orders:
                    self._check_refusal(network, publisher)
                    continue
                for _ in range(5):
                    network.publish(2, level=SecurityLevel.LOW)
                    network.publish(1, level=SecurityLevel.MED)
                network.settle()
                network.check_states()
                self.assertEqual(network.state_of("n0")["published"], 10)

    def _check_refusal(self, network: TransportNetwork, publisher: Publisher) -> None:
        """An ordering transport has no place for events above its level."""
        network.publish(2, level=SecurityLevel.LOW)
        publisher.publish(CARRIED, level=SecurityLevel.MED)
        network.publish(2, level=SecurityLevel.LOW)
        network.settle()
        network.check_states()
        errors = [each for _, each in publisher.results if isinstance(each, BrokerError)]
        self.assertEqual([each.code for each in errors], [ClearanceTooLow.code])
        self.assertEqual(network.state_of("n0")["published"], 4)
