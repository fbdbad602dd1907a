"""Networks of nodes for the tests of one stream transport."""

from __future__ import annotations

import unittest
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from broker.config.stacks import DEFAULT_STACK, Plugins, StackInstance
from broker.event.envelope import SecurityLevel
from broker.streams.contract import ITransportPlugin
from broker.testing.datagram_network import DatagramFaults
from broker.testing.determinism import deterministic
from broker.testing.simulated_network import NetworkWorld
from broker.testing.transport_network import EVERYTHING, INSTANCE, TransportNetwork, at_altitude
from broker.transport.stacks import IProtocolStack

if TYPE_CHECKING:
    _Base = unittest.TestCase
else:
    _Base = object


class TransportCase(_Base):
    """The transport under test, and its networks; a base of `TransportContract`."""

    plugin: ClassVar[ITransportPlugin]
    links: ClassVar[IProtocolStack | None] = None
    link_options: ClassVar[object] = None
    seeds: ClassVar[Sequence[int]] = (0, 1)

    def node_options(self, number: int) -> object:
        """Return the options of the transport in the node with this number, from 0.

        None stands for the defaults. Parents must have lower numbers.
        """
        return None

    def create_plugins(self, world: NetworkWorld) -> Plugins:
        """Return the transport and its link stack for one simulation."""
        return self.plugin, self.links

    def set_faults(self, world: NetworkWorld, faults: DatagramFaults) -> None:
        """Let the transport's own network have these faults from now on."""
        world.set_transport_faults(faults)

    @contextmanager
    def network(
        self,
        seed: int,
        count: int = 3,
        *,
        clearance: SecurityLevel = SecurityLevel.MED,
        is_carried: bool = True,
        wrap: Callable[[Plugins], Plugins] = lambda plugins: plugins,
    ) -> Iterator[TransportNetwork]:
        """Start nodes. With `is_carried`, the transport carries its stream from the start on."""
        with deterministic(seed), NetworkWorld(seed) as world:
            plugins = wrap(self.create_plugins(world))

            def make_stack(number: int) -> StackInstance:
                return StackInstance(
                    INSTANCE,
                    use=plugins[0].name,
                    clearance=clearance,
                    options=self.node_options(number),
                    link_options=self.link_options,
                )

            try:
                network = TransportNetwork(world, plugins, make_stack)
                network.add_nodes(count, is_carried=is_carried)
                yield network
            except Exception as error:
                error.add_note(f"seed {seed}")
                raise

    def is_default(self) -> bool:
        """Return True if the default stack is tested."""
        with NetworkWorld(0) as world:
            return self.create_plugins(world)[0].name == DEFAULT_STACK

    @staticmethod
    def subscribe_and_publish(network: TransportNetwork) -> None:
        """Let the first node publish for subscriptions at all nodes."""
        for name in network.world.names:
            network.subscribe(f"all-{name}", name, EVERYTHING, durable="d")
        network.subscribe("some", "n2", at_altitude(1))
        network.add_publisher("n0")
        network.publish()
