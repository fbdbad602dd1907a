"""`xmlbroker mesh` in a network of two clusters: what is shown, and changes without a pause."""

from __future__ import annotations

import unittest
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from broker.cli.mesh_failure import check_failure
from broker.cli.mesh_picture import Picture, read_picture
from broker.config.stacks import DEFAULT_STACK
from broker.errors import BadName, BrokerError, NotConnected, UnknownDestination, UnknownStack
from broker.testing.transport_case import TransportCase
from broker.testing.transport_network import INSTANCE, TransportNetwork
from plugins.dcp.options import DcpOptions
from plugins.dcp.plugin import dcp_transport
from plugins.dcp.stack import DcpLinkOptions, dcp_links

ROOTS, ROUTERS, LEAVES = ("n0", "n1"), ("n2", "n3", "n4"), ("n5", "n6")
KEYS = {"n2": "isp-a", "n3": "isp-b", "n4": "isp-b"}


def address_of(number: int) -> str:
    return f"127.0.0.1:{9000 + number}"


class TestMeshOperation(TransportCase, unittest.TestCase):
    plugin = dcp_transport
    links = dcp_links
    link_options = DcpLinkOptions()

    def node_options(self, number: int) -> DcpOptions:
        name = f"n{number}"
        return DcpOptions(
            udp=address_of(number),
            roots=(address_of(0), address_of(1)),
            children=3 if name in ROOTS else 8 if name in ROUTERS else 0,
            diversity={"uplink": KEYS[name]} if name in KEYS else {},
        )

    @contextmanager
    def mesh(self) -> Iterator[TransportNetwork]:
        """Start the nodes, with subscriptions at the leaves and a publisher at a root."""
        with self.network(0, 7, feed=DEFAULT_STACK) as network:
            self.client = network.world.client("admin", "n0")
            for name in LEAVES:
                network.subscribe(f"all-{name}", name, durable="d")
            network.add_publisher("n0")
            network.world.run_until(lambda: all(len(self.parents(network, n)) == 2 for n in LEAVES))
            network.publish(5)
            yield network
            network.settle()
            network.check_states()

    @staticmethod
    def parents(network: TransportNetwork, name: str) -> list[str]:
        return sorted(each["name"] for each in network.state_of(name)["parents"])

    def operate(self, network: TransportNetwork, **asked: str) -> Any:
        return network.world.wait(self.client.ask("operate", stack=INSTANCE, **asked))

    def picture(self, network: TransportNetwork) -> Picture:
        return read_picture(self.operate(network))

    def check_quiet(self, network: TransportNetwork, requests: dict[str, int]) -> None:
        """Check that the mesh brought all events itself, and nothing was missing for a moment."""
        for name in LEAVES:
            state = network.state_of(name)
            self.assertEqual((state["nacks"], state["passed"]), (0, 0), name)
            self.assertEqual(network.count_requests(name), requests[name], name)

    def test_all_nodes_are_shown_also_while_one_does_not_answer(self) -> None:
        with self.mesh() as network:
            picture = self.picture(network)
            self.assertEqual(set(picture.nodes), {*ROOTS, *ROUTERS, *LEAVES})
            self.assertEqual((picture.silent, picture.unanswered), ([], []))
            for name, node in picture.nodes.items():
                level = 0 if name in ROOTS else 1 if name in ROUTERS else 2
                self.assertEqual((node.level, node.resilience), (level, 1), name)
                self.assertEqual(
                    [link.parent for link in node.parents], [*self.links_of(network, name)]
                )
            for child, link in picture.links():
                self.assertIn(child.name, picture.nodes[link.parent].child_names)
                self.assertTrue(0 < link.loss < 0.2 and link.round_trip_ms > 0)
            first = picture.nodes["n5"].parents[0].parent
            failure = check_failure(picture, [first])
            self.assertEqual(failure.cut_off, [])
            self.assertEqual(failure.weakened["n5"], (1, 0))

            network.kill(first)
            network.publish(5)
            picture = self.picture(network)
            self.assertEqual(picture.unanswered, [first])
            self.assertTrue(any(each.endswith(f"/{first}") for each in picture.silent))
            self.assertEqual(check_failure(picture, [first]).weakened["n5"], (1, 0))
            with self.assertRaises(NotConnected):
                self.operate(network, action="leave", node=first)
            network.world.start(first)

    def links_of(self, network: TransportNetwork, name: str) -> list[str]:
        return [each["name"] for each in network.state_of(name)["parents"]]

    def test_a_router_leaves_and_comes_back_without_a_pause(self) -> None:
        with self.mesh() as network:
            requests = {name: network.count_requests(name) for name in LEAVES}
            name = self.parents(network, "n5")[0]
            row = self.operate(network, action="leave", node=name)["nodes"][0]
            self.assertEqual((row["name"], row["has_left"]), (name, True))
            self.assertGreater(row["children"], 0)
            for _ in range(40):
                network.publish(1)
                row = self.operate(network, node=name)["nodes"][0]
                if not row["children"]:
                    break
            self.assertEqual(row["children"], 0)
            for leaf in LEAVES:
                self.assertNotIn(name, self.parents(network, leaf))
                self.assertEqual(len(self.parents(network, leaf)), 2)
            self.check_quiet(network, requests)
            # It accepts no children until it rebalances.
            for leaf in LEAVES:
                self.operate(network, action="rebalance", node=leaf)
            network.publish(5)
            network.world.run(3.0)
            self.assertEqual(network.state_of(name)["children"], [])
            self.assertGreater(network.state_of(name)["refusals"]["leaving"], 0)
            self.operate(network, action="rebalance", node=name)
            other = next(each for each in ROUTERS if each != name)
            self.operate(network, action="leave", node=other)
            for _ in range(40):
                network.publish(1)
                if not self.operate(network, node=other)["nodes"][0]["children"]:
                    break
            self.assertEqual(network.state_of(other)["children"], [])
            self.assertNotEqual(network.state_of(name)["children"], [])
            self.check_quiet(network, requests)
            # It may be stopped, and a start forgets that it had left.
            network.kill(other)
            network.publish(5)
            self.check_quiet(network, requests)
            network.world.start(other)
            network.world.run(3.0)
            self.assertFalse(self.operate(network, node=other)["nodes"][0]["has_left"])

    def test_a_wrong_name_is_an_error_that_lists_the_right_ones(self) -> None:
        with self.mesh() as network:
            ask = self.client.ask
            wrong: list[tuple[dict[str, str], type[BrokerError], str]] = [
                (
                    {"node": "n9", "action": "leave"},
                    UnknownDestination,
                    "n0, n1, n2, n3, n4, n5, n6",
                ),
                ({"stack": "mspaces", "node": "n2", "action": "leave"}, UnknownStack, INSTANCE),
                ({"stack": "x"}, UnknownStack, INSTANCE),
                ({"node": "n2", "action": "halt"}, BadName, "show, rebalance, leave"),
                ({"action": "leave"}, BadName, "needs the name of a node"),
            ]
            for arguments, error, text in wrong:
                with self.assertRaisesRegex(error, text):
                    network.world.wait(ask("operate", **arguments))
            self.assertEqual(len(read_picture(network.world.wait(ask("operate"))).nodes), 7)
