"""Clients as leaves of a mesh of whole nodes: parents, sessions and tickets end."""

from __future__ import annotations

import unittest
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from operator import methodcaller
from unittest.mock import patch

from broker.client.mesh_splice import MeshSplice, SpliceState
from broker.config.stacks import DEFAULT_STACK
from broker.streams.operation import IOperatedTransport
from broker.testing.datagram_network import DatagramFaults
from broker.testing.simulated_reader import Reader
from broker.testing.transport_case import TransportCase
from broker.testing.transport_network import INSTANCE, TransportNetwork, at_altitude
from plugins.dcp.options import DcpOptions
from plugins.dcp.plugin import dcp_transport
from plugins.dcp.stack import DcpLinkOptions, dcp_links


def address_of(number: int) -> str:
    return f"127.0.0.1:{9000 + number}"


class TestClients(TransportCase, unittest.TestCase):
    plugin = dcp_transport
    links = dcp_links
    link_options = DcpLinkOptions()

    def node_options(self, number: int) -> DcpOptions:
        return DcpOptions(udp=address_of(number), roots=(address_of(0), address_of(1)))

    @contextmanager
    def mesh(
        self, seed: int = 0, loss: float = 0.0, count: int = 3
    ) -> Iterator[tuple[TransportNetwork, list[Reader]]]:
        """Start two roots and others; the clients have sessions at n2, and are in the mesh."""
        with self.network(seed, count, feed=DEFAULT_STACK) as network:
            self.set_faults(network.world, DatagramFaults(loss=loss, jitter=0.002))
            for name in ("n0", "n2"):
                network.add_publisher(name)
            readers = [
                network.subscribe("all", "n2", durable="d", mesh_parents=2),
                network.subscribe("some", "n2", at_altitude(1), mesh_parents=2),
            ]
            network.publish()
            network.world.run_until(lambda: all(map(is_held, readers)))
            yield network, readers
            network.settle()
            network.check_states()

    def test_a_parent_dies_and_comes_back(self) -> None:
        with self.mesh() as (network, readers):
            network.publish(10)
            network.kill("n1")
            network.publish(20)
            network.world.run_until(lambda: parents_of(readers[0]) != ["n0", "n1"], 60.0)
            network.world.start("n1")
            network.publish(5)
            for reader in readers:
                # The other parent has brought all.
                self.assertEqual(splice_of(reader).restarts, 0)
            network.world.run_until(lambda: len(parents_of(readers[0])) == 2)

    def test_the_node_of_the_session_restarts_and_another_one_takes_over(self) -> None:
        with self.mesh(1, loss=0.1) as (network, readers):
            arrived = splice_of(readers[0]).events
            network.kill("n2")
            network.add_publisher("n0")
            network.publish(10)
            network.world.run(1.0)
            # Without a session, the mesh goes on.
            self.assertGreater(splice_of(readers[0]).events, arrived)
            network.world.start("n2")
            network.publish(10)
            network.world.run_until(lambda: all(map(is_held, readers)))
            network.world.kill_client(readers[0].client)
            network.publish(5)
            moved = network.subscribe("all", "n0", durable="d", mesh_parents=2)
            network.publish(10)
            network.world.run_until(lambda: is_held(moved))

    def test_a_client_moves_from_a_parent_that_leaves_without_a_pause(self) -> None:
        with self.mesh() as (network, readers):
            network.publish(10)
            leave = methodcaller("operate", "leave")
            transports = network.world["n1"].transports
            assert transports is not None
            (mesh,) = [each for each in transports if each.instance == INSTANCE]
            mesh.ask(IOperatedTransport, leave)
            network.publish(20)
            network.world.run_until(lambda: parents_of(readers[0]) == ["n0", "n2"], 30.0)
            network.publish(5)
            self.assertEqual([splice_of(reader).restarts for reader in readers], [0, 0])

    def test_a_client_without_its_mesh_gets_all_from_its_session(self) -> None:
        with self.mesh() as (network, readers):
            network.world.datagrams.filter = lambda _, source, target: (
                not (is_client(source) or is_client(target))
            )
            network.publish(20)
            network.world.run_until(lambda: not any(map(is_held, readers)))
            network.world.datagrams.filter = lambda *_: True
            network.world.run_until(lambda: all(map(is_held, readers)))
            network.publish(10)

    def test_a_ticket_is_renewed_and_expires_without_a_session(self) -> None:
        with ExitStack() as patched:
            for place in ("transports.TICKET_SECONDS", "ticket.LEEWAY_SECONDS"):
                patched.enter_context(patch(f"broker.streams.{place}", 6.0))
            for module in (
                "broker.node.mesh_answers.TICKET_",
                "plugins.dcp.mesh.leaf_gate.LEEWAY_",
            ):
                patched.enter_context(patch(f"{module}SECONDS", 6.0))
            with self.mesh() as (network, readers):
                world = network.world
                world.run(30.0)
                self.assertEqual([splice_of(reader).restarts for reader in readers], [0, 0])
                address = world.client_address("n2", "all")
                world.network.refuse(address)
                world.cut_client("all")
                world.run(20.0)
                self.assertEqual(parents_of(readers[0]), [])
                self.assertEqual(network.state_of("n0")["refusals"]["ticket expired"] > 0, True)
                self.assertEqual(len(parents_of(readers[1])), 2)
                network.publish(5)
                world.network.heal(address)
                world.run_until(lambda: is_held(readers[0]))


def is_client(address: object) -> bool:
    return isinstance(address, tuple) and address[0] == "127.0.0.99"


def parents_of(reader: Reader) -> list[str]:
    assert reader.subscription is not None and reader.subscription.mesh is not None
    return sorted(reader.subscription.mesh.parents)


def splice_of(reader: Reader) -> MeshSplice:
    assert reader.subscription is not None
    found = reader.client.meshes.find_splice(reader.subscription.number)
    assert found is not None
    return found


def is_held(reader: Reader) -> bool:
    return splice_of(reader).state is SpliceState.HELD
