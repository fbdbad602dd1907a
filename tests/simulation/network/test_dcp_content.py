"""The content of a mesh: whose queries go where, and what each node gets."""

from __future__ import annotations

import unittest
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import attrs

from broker.config.stacks import DEFAULT_STACK
from broker.event.envelope import SecurityLevel
from broker.matching.contract import IMatcher, Verdict
from broker.testing.flights import Interest
from broker.testing.simulated_reader import Reader, read
from broker.testing.transport_network import (
    CARRIED,
    CARRIED_ONLY,
    INSTANCE,
    PATTERN,
    TransportNetwork,
    at_altitude,
)
from plugins.dcp.options import DcpOptions
from tests.simulation.network.dcp_mesh import LEAVES, ROOTS, ROUTERS, MeshCase
from tests.simulation.network.test_type_distribution import report_text


@contextmanager
def count_documents(matcher: IMatcher, documents: list[bytes]) -> Iterator[None]:
    """Append the documents that a matcher matches."""
    match = matcher.match

    def counted(found: Sequence[bytes], *args: Any, **named: Any) -> list[Verdict]:
        documents.extend(found)
        return match(found, *args, **named)

    with patch.object(matcher, "match", counted):
        yield


class TestContent(MeshCase, unittest.TestCase):
    def queries_at(self, network: TransportNetwork, name: str) -> dict[str, list[str]]:
        """Return the queries that a node has got from others through the network, by node or unit.

        Those of the children of the mesh have the name of the instance."""
        found: dict[str, list[str]] = {}
        for address, query in network.world.network_of(name).remote_interest.queries():
            if not address.startswith(INSTANCE):
                found.setdefault(address, []).append(query.text)
        return found

    def test_queries_of_the_mesh_stay_in_it(self) -> None:
        with self.mesh(0) as network:
            # A root takes all; n4 has interest in other streams too, n5 of the cluster "two" none.
            everything = {f"one/{name}": ["true()"] for name in (*ROOTS, "n4")}
            for name in (*ROOTS, *ROUTERS):
                found = self.queries_at(network, name)
                self.assertEqual(found, {k: v for k, v in everything.items() if k != f"one/{name}"})
            requests = {name: network.count_requests(name) for name in LEAVES}
            network.publish(10)
            network.world.run(10.0)
            for name in LEAVES:
                self.assertEqual(network.count_requests(name), requests[name], name)

    def test_a_slow_stream_whose_events_are_filtered_costs_no_pages(self) -> None:
        with self.network(0, 6, feed=DEFAULT_STACK) as network:
            reader = network.subscribe("some", "n5", at_altitude(1, PATTERN))
            publisher = network.add_publisher("n0")
            network.publish(3)
            network.world.run(10.0)
            requests = network.count_requests("n5")
            for _ in range(5):
                publisher.publish(CARRIED, 2)
                network.world.run(8.0)
            self.assertEqual(network.count_requests("n5"), requests)
            network.publish(3)
            network.settle()
            self.assertEqual(len(reader.events), 2)

    def test_queries_of_a_stopped_stack_go_through_the_network(self) -> None:
        with self.mesh(0) as network:
            transports = network.world["n5"].transports
            assert transports is not None
            (instance,) = [each for each in transports if each.instance == INSTANCE]
            instance.fail(RuntimeError("for this test"))
            network.publish(5)
            network.world.run(5.0)
            self.assertIn("two", self.queries_at(network, "n0"))
            network.subscribe("late", "n5", at_altitude(2, PATTERN))
            network.publish(10)
            network.settle()
            network.world.kill("n5")
            network.world.start("n5")

    def test_an_event_is_matched_once_at_each_node(self) -> None:
        with self.mesh(0) as network:
            # n1 is fed by the network, n2 by its parents; both have children and subscriptions.
            readers = [network.subscribe(f"here-{n}", n, CARRIED_ONLY) for n in ("n1", "n2")]
            # Earlier events are still on their way.
            read(network.world, *readers, seconds=5.0)
            matched: dict[str, list[bytes]] = {"n1": [], "n2": []}
            with ExitStack() as stack:
                for name, documents in matched.items():
                    matcher = network.world[name].matcher
                    stack.enter_context(count_documents(matcher, documents))
                before = [len(each.events) for each in readers]
                network.publish(10)
                read(network.world, *readers, seconds=5.0)
            for reader, count, documents in zip(readers, before, matched.values(), strict=True):
                # Others go through it, for the units of the network.
                carried = Counter(each for each in documents if CARRIED.encode() in each)
                found = [each.document for each in reader.events[count:]]
                self.assertEqual(len(found), 20)
                self.assertEqual(carried, Counter(found))


class TestClearances(MeshCase, unittest.TestCase):
    """The leaf n4 sees less than the others."""

    def node_clearance(self, number: int, default: SecurityLevel) -> SecurityLevel:
        return SecurityLevel.LOW if number == 4 else SecurityLevel.MED

    def test_an_event_above_the_clearance_of_a_link_comes_from_the_log(self) -> None:
        with self.mesh(0) as network:
            # Earlier events are still on their way.
            network.world.run(5.0)
            # So far no event could cross the links of n4.
            received = {name: network.state_of(name)["received"] for name in LEAVES}
            self.assertEqual(received["n4"], 0)
            requests = network.count_requests("n5")
            network.publish(5)
            network.publish(5, level=SecurityLevel.LOW)
            network.settle()
            found = {name: network.state_of(name)["received"] - received[name] for name in LEAVES}
            self.assertGreater(network.count_requests("n4"), 0)
            # Of the 20 events of the stream n5 has published a half itself.
            self.assertEqual(found, {"n4": 10, "n5": 10})
            self.assertEqual(network.count_requests("n5"), requests)
            for name in ROUTERS:
                children = network.state_of(name)["children"]
                withheld = {each["name"]: each["withheld"] for each in children}
                self.assertEqual(withheld["n5"], 0)
                self.assertGreaterEqual(withheld["n4"], 10)


class TestTypes(MeshCase, unittest.TestCase):
    def test_a_router_without_the_type_of_an_event_forwards_it_to_all_children(self) -> None:
        # An event is faster in the mesh than its type in the network.
        with self.network(0, 6, feed=DEFAULT_STACK, latency=0.1) as network:
            query = "/report/reportleg/altitude = 1"
            some = Interest(PATTERN, query, lambda stream, altitude: altitude == 1)
            network.subscribe("all", "n5", CARRIED_ONLY)
            network.subscribe("some", "n4", some)
            publisher = network.add_publisher("n0")
            world, text = network.world, report_text().encode()
            world.run_until(lambda: all(len(self.parents(network, n)) == 2 for n in LEAVES))
            named = {"type": "report", "version": "1.0", "against": ""}
            world.wait(publisher.client.ask("dtd-add", text, **named))
            for altitude, received in ((2, 1), (2, 1), (1, 2), (2, 2)):
                publisher.publish(CARRIED, altitude, name="report")
                world.run(3.0)
                self.assertEqual(network.state_of("n4")["received"], received)
            network.settle()


class TestSlowChildren(MeshCase, unittest.TestCase):
    """All nodes keep little for a child."""

    def node_options(self, number: int) -> DcpOptions:
        return attrs.evolve(super().node_options(number), send_buffer=64 << 10)

    def test_events_that_a_queue_policy_drops_are_gaps_of_the_subscription(self) -> None:
        with self.network(0, 6, feed=DEFAULT_STACK) as network:
            world = network.world
            client = world.client("slow", "n4")
            reader = Reader(world, client, CARRIED_ONLY, queue="drop-newest")
            world.run_until(lambda: reader.is_flowing)
            publisher = network.add_publisher("n0")
            publisher.publish(CARRIED, 1)
            read(world, reader, seconds=2.0)
            for _ in range(200):
                publisher.publish(CARRIED, 1, size=2_000)
            read(world, reader, seconds=20.0)
            dropped = sum(gap.count or 0 for gap in reader.gaps)
            self.assertEqual((len(reader.events) + dropped, dropped > 0), (201, True))
            self.assertEqual({gap.reason for gap in reader.gaps}, {"slow"})
            network.check_states()
