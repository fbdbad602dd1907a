"""A node outside of a group refuses its streams, and names its sites (X17)."""

from __future__ import annotations

from broker.cluster.tables.table import TableTimes
from broker.config.stacks import StackInstance
from broker.errors import NotInGroup
from broker.testing.determinism import deterministic
from broker.testing.flights import INTERESTS, Interest
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader
from broker.testing.transport_network import CARRIED, INSTANCE, OTHER, PATTERN, TransportNetwork
from plugins.rcm.options import RcmOptions
from plugins.rcm.plugin import rcm_transport
from plugins.rcm.stack import rcm_links

SITES = {f"n{each}": f"tcp:host=127.0.0.1:port={9000 + each}" for each in range(2)}
GROUP_ONLY = Interest(PATTERN, "true()", lambda stream, _: stream == CARRIED)


def publish(publisher: Publisher, world: NetworkWorld) -> list[object]:
    """Publish an event of the group, and one of another stream. Return both outcomes."""
    publisher.publish(CARRIED)
    publisher.publish(OTHER)
    world.run_until(lambda: len(publisher.results) == publisher.published)
    return [result for _, result in publisher.results[-2:]]


def test_a_node_outside_refuses_publications_and_subscriptions() -> None:
    with deterministic(3), NetworkWorld(3) as world:
        network = TransportNetwork(
            world,
            (rcm_transport, rcm_links),
            lambda _: StackInstance(INSTANCE, use="rcm", options=RcmOptions(sites=SITES)),
        )
        for name in ("n2", "n0", "n1"):
            world.add(name, "one", start=False, join=world.names[:1])
            network.set_carried(name, name in SITES)
        world.start("n2")
        world.run(2.0)
        publisher = Publisher(world.client("outside", "n2"))
        # The node does not know the group yet.
        assert not any(isinstance(each, Exception) for each in publish(publisher, world))
        world.start("n0")
        world.start("n1")
        world.run(5.0)
        for absent in ("n0", "n1", ""):
            refused, accepted = publish(publisher, world)
            assert isinstance(refused, NotInGroup) and "n0, n1" in str(refused)
            assert not isinstance(accepted, Exception)
            if absent:
                world.kill(absent)
                # Then the tables of the node are dropped.
                world.run(TableTimes().silence + 5.0)
        world.start("n1")
        world.run(3.0)
        # The node learns of the group again, also for a session that it has.
        world.kill("n2")
        world.start("n2")
        publish(publisher, world)
        world.run(5.0)
        refused, accepted = publish(publisher, world)
        assert isinstance(refused, NotInGroup) and not isinstance(accepted, Exception)
        inside = Reader(world, world.client("group", "n2"), GROUP_ONLY)
        wide = Reader(world, world.client("all", "n2"), INTERESTS[0])
        world.run_until(lambda: inside.error is not None and wide.is_flowing)
        assert isinstance(inside.error, NotInGroup)
        # Without the group at its only site that is there, all nodes carry the stream.
        world.kill("n1")
        network.set_carried("n1", False)
        world.start("n1")
        world.run(3.0)
        assert not any(isinstance(each, Exception) for each in publish(publisher, world))
