"""Networks of whole nodes in a mesh: two roots, two routers, two leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

from broker.config.stacks import DEFAULT_STACK
from broker.testing.datagram_network import DatagramFaults
from broker.testing.transport_case import TransportCase
from broker.testing.transport_network import (
    CARRIED_ONLY,
    EVERYTHING,
    PATTERN,
    TransportNetwork,
    at_altitude,
)
from plugins.dcp.options import DcpOptions
from plugins.dcp.plugin import dcp_transport
from plugins.dcp.stack import DcpLinkOptions, dcp_links

ROOTS, ROUTERS, LEAVES = ("n0", "n1"), ("n2", "n3"), ("n4", "n5")


def address_of(number: int) -> str:
    return f"127.0.0.1:{9000 + number}"


class MeshCase(TransportCase):
    """Base of tests in a mesh of two levels."""

    plugin = dcp_transport
    links = dcp_links
    link_options = DcpLinkOptions()
    seeds: ClassVar[Sequence[int]] = (0, 1)
    confirms = False

    def node_options(self, number: int) -> DcpOptions:
        """The roots have room for the routers only."""
        name = f"n{number}"
        return DcpOptions(
            udp=address_of(number),
            roots=(address_of(0), address_of(1)),
            children=2 if name in ROOTS else 8 if name in ROUTERS else 0,
            confirm=self.confirms,
        )

    @contextmanager
    def mesh(self, seed: int, faults: DatagramFaults | None = None) -> Iterator[TransportNetwork]:
        """Start the nodes with subscriptions at the leaves, and publishers at n0 and n5.

        Of the leaves only n4 has interest in other streams, too.
        """
        with self.network(seed, 6, feed=DEFAULT_STACK) as network:
            if faults is not None:
                self.set_faults(network.world, faults)
            for name, interest in zip(LEAVES, (EVERYTHING, CARRIED_ONLY), strict=True):
                network.subscribe(f"all-{name}", name, interest, durable="d")
                network.subscribe(f"some-{name}", name, at_altitude(1, PATTERN))
            for name in ("n0", "n5"):
                network.add_publisher(name)
            network.world.run_until(lambda: all(len(self.parents(network, n)) == 2 for n in LEAVES))
            network.publish()
            yield network
            network.settle()
            network.check_states()

    @staticmethod
    def parents(network: TransportNetwork, name: str) -> list[str]:
        return [each["name"] for each in network.state_of(name)["parents"]]


class ConfirmingMesh(MeshCase):
    """The nodes confirm the ranges of their parents."""

    confirms = True
