"""Networks of nodes for the tests of one stream transport."""

from __future__ import annotations

import unittest
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from broker.config.stacks import Plugins, StackInstance
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
    is_default: ClassVar[bool] = False
    """True to test the default stack itself, which carries all streams."""
    seeds: ClassVar[Sequence[int]] = (0, 1)

    def node_options(self, number: int) -> object:
        """Return the options of the transport in the node with this number, from 0.

        None stands for the defaults. Parents must have lower numbers.
        """
        return None

    def node_clearance(self, number: int, default: SecurityLevel) -> SecurityLevel:
        """Return the clearance of the instance in a node."""
        return default

    def reached_nodes(self, names: Sequence[str]) -> Sequence[str]:
        """Return those of the nodes to which the transport itself brings events of the others."""
        return names

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
        feed: str = "",
        latency: float = 0.001,
        wrap: Callable[[Plugins], Plugins] = lambda plugins: plugins,
    ) -> Iterator[TransportNetwork]:
        """Start nodes. With `is_carried`, the transport carries its stream from the start on.

        `feed` names its feeder. `latency` is that of the network of clusters.
        """
        with deterministic(seed), NetworkWorld(seed, latency=latency) as world:
            plugins = wrap(self.create_plugins(world))
            # As in a configuration, options name the link stack.
            links = plugins[1] if self.link_options is not None else None

            def make_stack(number: int) -> StackInstance:
                return StackInstance(
                    INSTANCE,
                    use=plugins[0].name,
                    links="" if links is None else links.name,
                    feed=feed,
                    clearance=self.node_clearance(number, clearance),
                    options=self.node_options(number),
                    link_options=self.link_options,
                )

            try:
                network = TransportNetwork(world, plugins, make_stack, is_default=self.is_default)
                network.add_nodes(count, is_carried=is_carried)
                yield network
            except Exception as error:
                error.add_note(f"seed {seed}")
                raise

    @staticmethod
    def subscribe_and_publish(
        network: TransportNetwork, publishers: Sequence[str] = ("n0",)
    ) -> None:
        """Let some nodes, usually the first, publish for subscriptions at all nodes."""
        for name in network.world.names:
            network.subscribe(f"all-{name}", name, EVERYTHING, durable="d")
        network.subscribe("some", "n2", at_altitude(1))
        for name in publishers:
            network.add_publisher(name)
        network.publish()
