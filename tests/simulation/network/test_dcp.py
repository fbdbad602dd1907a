"""Whole nodes in a mesh of two levels: roots and routers die, restart, and are cut off."""

from __future__ import annotations

import unittest
from collections.abc import Iterator, Sequence
from typing import ClassVar

import pytest

from broker.cli.explanation.path_tree import PathStep, find_path_steps
from broker.config.stacks import DEFAULT_STACK
from broker.errors import BadName
from broker.testing.datagram_network import DatagramFaults
from broker.testing.transport_network import CARRIED, TransportNetwork, at_altitude
from tests.simulation.network.dcp_mesh import LEAVES, ROUTERS, MeshCase
from tests.simulation.network.mesh_omissions import router_of


def lines_below(steps: Sequence[PathStep], indent: str = "") -> Iterator[str]:
    for step in steps:
        yield indent + step.line
        yield from lines_below(step.steps, f"{indent}  ")


class TestMesh(MeshCase, unittest.TestCase):
    seeds: ClassVar[Sequence[int]] = (0,)

    def wait_without(self, network: TransportNetwork, name: str, parent: str) -> None:
        """Wait until a node has given a parent up."""
        network.world.run_until(lambda: parent not in self.parents(network, name), 60.0)

    def test_the_leaves_are_children_of_the_routers(self) -> None:
        with self.mesh(0) as network:
            for name in LEAVES:
                self.assertEqual(sorted(self.parents(network, name)), sorted(ROUTERS))
                self.assertEqual(network.state_of(name)["level"], 2)

    def test_the_paths_of_an_event_are_explained(self) -> None:
        """A leaf gets the event twice, late, or over one link only; another one filters it."""
        with self.network(0, 6, feed=DEFAULT_STACK) as network:
            world = network.world
            network.subscribe("some", "n4", at_altitude(1))
            network.subscribe("all", "n5")
            publisher = network.add_publisher("n1")
            world.run_until(lambda: all(len(self.parents(network, n)) == 2 for n in LEAVES))
            asking = world.client("operator", "n3")

            def lines_of_last() -> list[str]:
                world.run_until(lambda: publisher.published == len(publisher.results))
                world.run(0.2)
                event = str(publisher.receipts[-1].event_id)
                answer = world.wait(asking.ask("event-paths", event=event))
                self.assertEqual((answer["silent"], answer["partly"]), ([], []))
                self.assertEqual(answer["stack"]["name"], "tested")
                return list(lines_below(find_path_steps(answer["nodes"])))

            publisher.publish(CARRIED, 1)
            lines = lines_of_last()
            for name in (*ROUTERS, *LEAVES):
                copies = [line for line in lines if f" {name}: " in line]
                self.assertEqual(len(copies), 2, lines)
                self.assertEqual(sum(": first" in line for line in copies), 1, lines)
                self.assertEqual(sum(" ms behind the first" in line for line in copies), 1, lines)

            publisher.publish(CARRIED, 2)
            lines = lines_of_last()
            filtered = [line for line in lines if " n4: filtered" in line]
            self.assertEqual(len(filtered), 2, lines)
            self.assertIn("altitude = 1", filtered[0])

            network.cut_datagrams("n4", "n2")
            publisher.publish(CARRIED, 1)
            self.assertIn("    n4: forwarded, and not arrived yet", lines_of_last())
            world.heal_transports()
            event = str(publisher.receipts[-1].event_id)
            world.run_until(lambda: "n2" in self.parents(network, "n4"))
            world.run(1.0)
            answer = world.wait(asking.ask("event-paths", event=event))
            self.assertIn("    n4: lost", list(lines_below(find_path_steps(answer["nodes"]))))

            network.kill("n2")
            answer = world.wait(asking.ask("event-paths", event=event))
            self.assertEqual(answer["silent"], ["one/n2"])
            lines = list(lines_below(find_path_steps(answer["nodes"])))
            self.assertIn("  n3: first", lines)
            self.assertIn("n5 (first from n2: no answer)", lines)
            answer = world.wait(asking.ask("event-paths", event="nobody/1/1@1"))
            self.assertEqual((answer["place"], answer["nodes"]), (None, []))
            with self.assertRaises(BadName):
                world.wait(asking.ask("event-paths", event="nobody"))

    def test_a_router_dies_and_comes_back(self) -> None:
        for seed, loss in enumerate((0.0, 0.2)):
            with self.mesh(seed, DatagramFaults(loss=loss, jitter=0.005)) as network:
                requests = {name: network.count_requests(name) for name in LEAVES}
                network.kill("n2")
                network.publish(20)
                for name in LEAVES:
                    self.wait_without(network, name, "n2")
                    if not loss:
                        # The other router has brought all: no page was needed.
                        self.assertEqual(network.count_requests(name), requests[name], name)
                network.world.start("n2")
                network.publish(20)

    def test_a_child_that_is_cut_off_holds_memory_of_its_parents_queues(self) -> None:
        with self.mesh(0) as network:
            router, memory = router_of(network, "n2"), network.world["n2"].queue_memory
            (child,) = [each for each in router.children if each.name == "n4"]
            network.cut_datagrams("n2", "n4")
            network.publish(5)
            held = child.connection.buffer.sent.bytes
            self.assertGreater(held, 0)
            self.assertGreaterEqual(memory.used, held)
            network.world.run_until(lambda: "n2" not in self.parents(network, "n4"), 60.0)
            network.world.run_until(lambda: child not in list(router.children), 60.0)
            network.world.run_until(lambda: not memory.used)
            network.world.heal_transports()

    def test_a_root_dies_and_comes_back(self) -> None:
        for seed in self.seeds:
            with self.mesh(seed) as network:
                network.kill("n1")
                network.publish(20)
                network.world.run(2.0)
                network.world.start("n1")
                network.publish(20)

    def test_the_origin_which_is_a_root_restarts_with_a_new_epoch(self) -> None:
        for seed in self.seeds:
            with self.mesh(seed) as network:
                network.kill("n0")
                network.world.run(1.0)
                network.world.start("n0")
                network.publish(20)

    def test_a_leaf_is_cut_off_from_its_parents_only(self) -> None:
        for seed in self.seeds:
            with self.mesh(seed) as network:
                for name in ROUTERS:
                    network.cut_datagrams("n4", name)
                network.publish(20)
                network.world.run(8.0)
                # Their places at the roots are taken: the log brings the events.
                network.world.heal_transports()
                network.publish(20)
                network.world.run_until(lambda: len(self.parents(network, "n4")) == 2)

    def test_a_leaf_is_cut_off_from_the_network_of_clusters_only(self) -> None:
        for seed in self.seeds:
            with self.mesh(seed) as network:
                received = network.state_of("n4")["received"]
                for name in network.world.names:
                    if name != "n4":
                        network.world.cut("n4", name, refuse=True)
                network.publish(20)
                network.world.run(3.0)
                self.assertGreater(network.state_of("n4")["received"], received)
                for name in network.world.names:
                    if name != "n4":
                        network.world.heal("n4", name)
                network.publish(5)


@pytest.mark.soak
class TestMeshLong(TestMesh):
    seeds = range(1, 10)
