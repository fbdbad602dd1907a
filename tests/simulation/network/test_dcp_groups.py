"""Whole nodes whose children share an IP multicast group."""

from __future__ import annotations

import unittest

import attrs

from broker.config.stacks import DEFAULT_STACK
from broker.testing.datagram_network import DatagramFaults
from broker.testing.transport_network import PATTERN, TransportNetwork, at_altitude
from plugins.dcp.options import DcpOptions
from tests.simulation.network.dcp_mesh import MeshCase, address_of

CHILDREN = ("n1", "n2", "n3")


class TestGroups(MeshCase, unittest.TestCase):
    def node_options(self, number: int) -> DcpOptions:
        """One root with three children."""
        options = DcpOptions(udp=address_of(number), roots=(address_of(0),), parents=1)
        return attrs.evolve(options, multicast="239.77.0.1:8771", children=0 if number else 8)

    @staticmethod
    def carried(network: TransportNetwork) -> int:
        sent_to = network.state_of("n0")["groups"]["sent_to"]
        return sum(each["carried"] for each in sent_to)

    def publish_until_shared(self, network: TransportNetwork) -> None:
        """A child joins the group with an event that it gets there: that may be lost."""
        for _ in range(60):
            network.publish()
            network.world.run(1.0)
            if self.carried(network) == 3:
                return
        self.fail("a child is not in the group")

    def test_children_share_a_group_through_loss_and_a_restart(self) -> None:
        with self.network(0, 4, feed=DEFAULT_STACK) as network:
            world = network.world
            for name in CHILDREN:
                network.subscribe(f"high-{name}", name, at_altitude(1, PATTERN), durable="d")
            network.add_publisher("n0")
            world.run_until(lambda: all(self.parents(network, n) for n in CHILDREN))
            self.set_faults(world, DatagramFaults(loss=0.1))
            self.publish_until_shared(network)
            heard = network.state_of("n1")["groups"]
            self.assertEqual((heard["joined"], heard["malformed"]), (1, 0))
            network.kill("n2")
            network.publish()
            world.start("n2")
            world.run_until(lambda: bool(self.parents(network, "n2")), 30.0)
            self.publish_until_shared(network)
            network.publish()
            network.settle()
            network.check_states()
            self.assertEqual(network.state_of("n0")["groups"]["refused"], 0)
