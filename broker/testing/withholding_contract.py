"""Contract tests for stream transports: positions while a transport withholds events."""

from __future__ import annotations

from broker.client.received import since
from broker.event.place import Mark
from broker.streams.contract import Guarantee
from broker.testing.simulated_reader import Reader, name_of, read
from broker.testing.transport_calls import TransportCalls
from broker.testing.transport_case import TransportCase
from broker.testing.transport_network import TransportNetwork


class WithholdingContract(TransportCase):
    """A part of `TransportContract`.

    The transport hands batches over late, or not at all. With `Guarantee.ONE_ORDER`, subscriptions
    wait for own events too.
    """

    def test_a_subscription_has_an_exact_mark_of_a_transport_that_withholds(self) -> None:
        for seed in self.seeds:
            self._check_exact_marks(seed)

    def _check_exact_marks(self, seed: int) -> None:
        calls = TransportCalls()
        with self.network(seed, wrap=calls.wrap) as network:
            world = network.world
            readers = [network.subscribe(f"all-{name}", name) for name in world.names]
            publisher = network.add_publisher("n0")
            network.publish(5)
            network.settle()
            if not any(each.has_received for each in calls.values()):
                # The network of clusters has a path of its own.
                return
            calls.hold(*world.names)
            network.publish(1)
            world.run_until(lambda: not publisher.client.unacknowledged)
            # Less than the time until the events come from the log.
            read(world, *readers, seconds=0.3)
            carried, other = publisher.marks[-2:]
            is_ordered = Guarantee.ONE_ORDER in network.plugins[0].guarantees
            reached = self.reached_nodes([name for name in world.names if name != "n0"])
            for name, reader in zip(world.names, readers, strict=True):
                is_withheld = is_ordered or name in reached
                events = [event.place.mark for event in reader.events]
                self.assertEqual(carried not in events, is_withheld, name)
                self.assertIn(other, events, name)
                marks = _marks(network, reader)
                self.assertGreaterEqual(marks["default"], other, name)
                self.assertEqual(marks["carried"] < carried, is_withheld, name)
            is_released = world.random.random() < 0.5
            if is_released:
                calls.release()
            network.publish(1)
            network.settle()
            for name, reader in zip(world.names, readers, strict=True):
                network.check_marks(reader, "n0")
                if (is_ordered or name in reached) and not is_released:
                    place = world["n0"].event_log.origin, carried
                    self.assertIn(place, calls[name].recovered, name)
            network.check_states()

    def test_a_subscription_moves_between_nodes_while_one_withholds_events(self) -> None:
        for seed in self.seeds:
            for before, after in (("n0", "n1"), ("n1", "n0"), ("n1", "n2")):
                self._check_roaming(seed, before, after)

    def _check_roaming(self, seed: int, before: str, after: str) -> None:
        calls = TransportCalls()
        with self.network(seed, wrap=calls.wrap) as network:
            world = network.world
            for name in ("n0", "n1"):
                network.add_publisher(name)
            first = network.subscribe("rover", before, durable="d")
            network.publish(3)
            calls.hold(world.random.choice((before, after)))
            network.publish(3)
            read(world, first, seconds=world.random.choice((0.0, 0.2, 0.5)))
            assert first.subscription is not None
            start = since(first.subscription.position)
            world.kill_client(first.client)
            second = network.subscribe("rover", after, durable="d", start=start, waits=False)
            second.starts_after = first.starts_after
            network.publish(3)
            world.run(world.random.choice((0.0, 0.3, 5.0)))
            calls.release()
            network.publish(3)
            network.settle()
            self._check_once(first, second)
            for origin in ("n0", "n1"):
                network.check_marks(second, origin)
            network.check_states()

    def _check_once(self, *processes: Reader) -> None:
        names = [name_of(event) for reader in processes for event in reader.events]
        self.assertEqual(len(names), len(set(names)), "some came twice")

    def test_a_node_that_restarts_while_it_withholds_events_delivers_them(self) -> None:
        for name in ("n0", "n2"):
            for seed in self.seeds:
                calls = TransportCalls()
                with self.network(seed, wrap=calls.wrap) as network:
                    self.subscribe_and_publish(network, ("n0", "n1"))
                    calls.hold(name)
                    network.publish(3)
                    network.world.run(network.world.random.choice((0.0, 0.2)))
                    network.kill(name)
                    network.publish(2)
                    network.world.start(name)
                    network.publish(3)
                    network.settle()
                    for (reader,) in network.readers.values():
                        for origin in ("n0", "n1"):
                            network.check_marks(reader, origin)
                    network.check_states()


def _marks(network: TransportNetwork, reader: Reader) -> dict[str, Mark]:
    """Return the marks of both flows of the first node."""
    assert reader.subscription is not None
    marks = reader.subscription.position.marks
    flows = {"default": network.world["n0"].event_log.origin, "carried": network.flow_of("n0")}
    return {kind: marks.get(flow, (0, 0)) for kind, flow in flows.items()}
