"""Contract tests for stream transports that annotate events (`IAnnotatingTransport`)."""

from __future__ import annotations

from typing import Any, ClassVar
from unittest.mock import patch

from broker.event.annotation import annotation_of
from broker.event.envelope import Header
from broker.event.flow import origin_of
from broker.event.record import RECORD_FIELDS
from broker.log.known_flows import stream_of
from broker.log.logged_event import LoggedEvent, header_from_fields
from broker.testing.datagram_network import DatagramFaults
from broker.testing.transport_calls import TransportCalls
from broker.testing.transport_case import TransportCase
from broker.testing.transport_network import CARRIED, TransportNetwork


class AnnotationContract(TransportCase):
    """Mix it into the test case beside `TransportContract`.

    Every log must have the annotation that the origin's transport gave to the event, or that an
    ordering transport gave when it delivered the event.
    """

    annotates_received: ClassVar[bool] = False
    """True if the transport gives other annotations to received events: a log may have these."""

    def test_all_logs_have_the_annotations_of_the_origin(self) -> None:
        self._check(DatagramFaults(jitter=0.02))

    def test_events_in_pages_have_the_annotations_of_the_origin(self) -> None:
        calls = self._check(DatagramFaults(loss=1.0))
        self.assertGreater(len(calls["n2"].recovered), 0, "nothing came in pages")

    def test_events_have_their_annotations_if_some_come_in_pages(self) -> None:
        self._check(DatagramFaults(loss=0.5, duplication=0.3, jitter=0.1))

    def _check(self, faults: DatagramFaults) -> TransportCalls:
        for seed in self.seeds:
            calls = TransportCalls()
            with self.network(seed, wrap=calls.wrap) as network:
                self.subscribe_and_publish(network, ("n0", "n2"))
                self.set_faults(network.world, faults)
                network.publish()
                network.settle()
                network.check_states()
                self.check_annotations(network, calls)
        return calls

    def test_clients_get_no_annotations(self) -> None:
        sizes = set[int]()

        def decode(fields: Any) -> Header:
            sizes.add(len(fields))
            return header_from_fields(fields)

        with patch("broker.wire.event_batch.header_from_fields", decode):
            calls = self._check(DatagramFaults())
        # Order entries of an ordering transport are for clients.
        orders = any(each.orders for each in calls.values())
        self.assertEqual(sizes, {RECORD_FIELDS, RECORD_FIELDS + orders})

    def test_restarted_nodes_have_and_give_annotations(self) -> None:
        for seed in self.seeds:
            calls = TransportCalls()
            with self.network(seed, wrap=calls.wrap) as network:
                names = network.world.names
                self.subscribe_and_publish(network, names)
                for name in network.world.random.sample(names, len(names)):
                    network.kill(name)
                    network.publish(3)
                    network.world.start(name)
                    network.publish(3)
                network.settle()
                network.check_states()
                self.check_annotations(network, calls)

    def test_events_are_annotated_again_after_a_failed_commit(self) -> None:
        for seed in self.seeds:
            calls = TransportCalls()
            with self.network(seed, wrap=calls.wrap) as network:
                world = network.world
                self.subscribe_and_publish(network)
                world.set_disk_full("n0", True)
                network.publish(3)
                world.run(3.0)
                self.assertTrue(world["n0"].event_log.failures)
                world.set_disk_full("n0", False)
                network.publish(3)
                network.settle()
                network.check_states()
                self.check_annotations(network, calls)

    def check_annotations(self, network: TransportNetwork, calls: TransportCalls) -> None:
        """Check the annotations in the logs of all nodes, and that clients got none."""
        origins = {network.world[name].event_log.origin: name for name in network.world.names}
        for name in network.world.names:
            log = network.world[name].event_log
            events: list[LoggedEvent] = network.world.wait(log.read(1, 1 << 40, 1 << 60))
            for event in events:
                origin = origin_of(event.origin)
                expected = set[bytes]({b""})
                if stream_of(event.record) == CARRIED:
                    expected = {calls[origins[origin]].annotated[event.mark]}
                    arrived = calls[name].arrived[origin, event.mark]
                    if calls[name].orders:
                        if not event.is_withheld:
                            expected = calls[name].delivered[origin, event.mark]
                    elif not self.annotates_received:
                        self.assertLessEqual(arrived, expected)
                    elif origin != log.origin:
                        expected = arrived
                where = f"{event.mark} of {event.origin} at {name}, seed {network.world.seed}"
                self.assertIn(annotation_of(event.record), expected, where)
        given = {annotation for each in calls.values() for annotation in each.annotated.values()}
        self.assertGreater(len(given), 0, "the transport gave no annotation")
