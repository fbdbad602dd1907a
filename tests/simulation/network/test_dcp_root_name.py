"""Whole nodes of a mesh whose roots are the address records of a DNS name."""

from __future__ import annotations

import unittest
from collections.abc import Iterator
from contextlib import contextmanager

from broker.cluster.discovery.seed_poller import PERIOD, SHORTEST_PERIOD
from broker.config.stacks import DEFAULT_STACK, Plugins
from broker.testing.simulated_network import NetworkWorld
from broker.testing.transport_case import TransportCase
from broker.testing.transport_network import TransportNetwork
from plugins.dcp.options import DcpOptions
from plugins.dcp.plugin import dcp_transport
from plugins.dcp.stack import DcpLinkOptions, dcp_links

NAME = "asdi.example"


class TestRootName(TransportCase, unittest.TestCase):
    """Node `n2` subscribes, and `n3` publishes."""

    plugin = dcp_transport
    links = dcp_links
    link_options = DcpLinkOptions()
    parents: int | str = 2
    loss_target = 1e-6
    records: tuple[int, ...] | None = (0, 1)
    """Nodes of the name at the start."""

    def node_options(self, number: int) -> DcpOptions:
        udp = f"{self.host_of(number)}:8770"
        return DcpOptions(
            udp=udp, root_name=NAME, parents=self.parents, loss_target=self.loss_target
        )

    @staticmethod
    def host_of(number: int) -> str:
        return f"127.0.1.{number + 1}"

    def name_roots(self, world: NetworkWorld, *numbers: int) -> None:
        world.datagrams.dns[NAME] = [self.host_of(number) for number in numbers]

    def create_plugins(self, world: NetworkWorld) -> Plugins:
        if self.records is not None:
            self.name_roots(world, *self.records)
        return super().create_plugins(world)

    @contextmanager
    def mesh(self, records: tuple[int, ...] | None = (0, 1)) -> Iterator[TransportNetwork]:
        self.records = records
        with self.network(0, 4, feed=DEFAULT_STACK) as network:
            network.subscribe("all", "n2", durable="d")
            network.add_publisher("n3")
            network.publish(3)
            yield network
            network.publish(3)
            network.settle()
            network.check_states()

    @staticmethod
    def wait_for_parents(network: TransportNetwork, *names: str, limit: float = 20.0) -> None:
        def is_whole() -> bool:
            parents = [each["name"] for each in network.state_of("n2")["parents"]]
            return sorted(parents) == list(names)

        network.world.run_until(is_whole, limit)

    @staticmethod
    def alarms(network: TransportNetwork, name: str) -> str:
        return "; ".join(network.state_of(name)["alarms"])

    def test_a_node_starts_before_dns_works(self) -> None:
        with self.mesh(None) as network:
            assert not network.state_of("n0")["is_root"]
            self.name_roots(network.world, 0, 1)
            self.wait_for_parents(network, "n0", "n1", limit=2 * PERIOD)
            assert network.state_of("n0")["is_root"]
            received = network.state_of("n2")["received"]
            network.publish(3)
            network.world.run(1.0)
            assert network.state_of("n2")["received"] > received

    def test_the_last_answer_counts_while_dns_fails(self) -> None:
        with self.mesh() as network:
            self.wait_for_parents(network, "n0", "n1")
            del network.world.datagrams.dns[NAME]
            network.kill("n1")
            network.world.run(2 * PERIOD)
            network.world.start("n1")
            network.world.run(5.0)
            # It restarted without DNS, and is no root before an answer.
            assert not network.state_of("n1")["is_root"]
            self.name_roots(network.world, 0, 1)
            self.wait_for_parents(network, "n0", "n1", limit=2 * PERIOD)

    def test_roots_that_have_moved_are_found_when_none_answers(self) -> None:
        with self.mesh((0,)) as network:
            self.wait_for_parents(network, "n0")
            network.kill("n0")
            network.kill("n1")
            network.world.run(PERIOD)
            self.name_roots(network.world, 1)
            network.world.start("n1")
            self.wait_for_parents(network, "n1", limit=2 * SHORTEST_PERIOD + 6.0)
            network.world.start("n0")

    def test_nodes_judge_the_joint_loss_of_their_parents(self) -> None:
        self.parents, self.loss_target = "auto", 1e-3
        with self.mesh() as network:
            self.wait_for_parents(network, "n0", "n1")
            network.publish(100)
            network.world.run(15.0)
            found = network.state_of("n2")["parent_count"]
            assert (found["chosen"], found["joint_loss"], found["basis"]) == (2, 0.0, "estimated")
            assert found["samples"] >= 100 and 0 < found["upper_bound"] < 2e-3

    def test_a_node_becomes_a_root_only_by_a_restart(self) -> None:
        with self.mesh((0, 1)) as network:
            self.wait_for_parents(network, "n0", "n1")
            self.name_roots(network.world, 0, 3)
            network.world.run(PERIOD + 2.0)
            address = f"{self.host_of(3)}:8770"
            text = f"{NAME} names {address}, and this node runs as no root: restart it"
            assert text in self.alarms(network, "n3")
            text = f"{NAME} lacks {self.host_of(1)}:8770, and this node runs as a root: restart it"
            assert text in self.alarms(network, "n1")
            assert network.state_of("n1")["is_root"] and not network.state_of("n3")["is_root"]
            for name in ("n1", "n3"):
                network.kill(name)
                network.world.start(name)
            self.wait_for_parents(network, "n0", "n3", limit=PERIOD)
            assert self.alarms(network, "n3") == "" and not network.state_of("n1")["is_root"]
