"""Flows of which the network of clusters feeds a transport (`ITransportContext.request_feed`)."""

from __future__ import annotations

import pytest

from broker.config.stacks import DEFAULT_STACK, StackInstance
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, read
from tests.seeds import seeds
from tests.simulation.network.other_transport import OtherTransport
from tests.simulation.network.test_flows import PATTERN, SLOW


@pytest.mark.parametrize("cluster", ["one", ""])
@pytest.mark.parametrize("seed", seeds(1, 6))
def test_a_fed_node_gets_the_events_of_a_flow_without_requests(seed: int, cluster: str) -> None:
    """The node asks for a feed before it is in a cluster."""
    with NetworkWorld(seed) as world:
        transport = OtherTransport(world, loses=lambda _: True)
        transport.requests_feed = True
        world.add("origin", "one", start=False)
        transport.set_patterns("origin", PATTERN)
        world.start("origin")
        world.add("fed", cluster, start=False, join=["origin"])
        world.set_stacks("fed", {PATTERN: StackInstance(transport.name, feed=DEFAULT_STACK)})
        world.start("fed")
        world.run(8.0)
        reader = Reader(world, world.client("reader", "fed"))
        world.run_until(lambda: reader.is_flowing)
        publisher = Publisher(world.client("publisher", "origin"))
        for _ in range(10):
            publisher.publish(SLOW)
            world.run(0.1)
        read(world, reader, seconds=1.0)
        assert len(reader.events) == transport.recovered == 10
        traffic = world.network_of("fed").traffic
        assert traffic is not None and traffic.receiver.counts.asked == 0
