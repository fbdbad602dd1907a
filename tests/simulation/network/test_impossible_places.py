"""Places that no honest node has, in requests of a member."""

from __future__ import annotations

import pytest

from broker.cluster.address import Address
from broker.cluster.traffic.messages import PageRequest
from broker.event.place import Mark
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, read


@pytest.mark.parametrize("place", [(2**32 - 1, 3), (2**32 - 1, 2**40), (1, 2**62)])
def test_an_impossible_place_stops_no_log(place: Mark) -> None:
    with NetworkWorld(1) as world:
        world.add("a", "c")
        world.add("b", "c", join=["a"])
        world.run(3.0)
        reader = Reader(world, world.client("reader", "b"))
        publisher = Publisher(world.client("publisher", "a"))
        world.run_until(lambda: reader.is_flowing)
        publisher.publish()
        read(world, reader)
        origin = world["a"].event_log.origin
        a, b = Address(("c",), "a"), Address(("c",), "b")
        world.network_of("b").driver.send_routed(PageRequest(a, b, 9, origin, place))
        world.run(20.0)
        publisher.publish()
        world.run_until(lambda: not publisher.client.unacknowledged)
        read(world, reader)
        numbers = [event.event_id.sequence_number for event in reader.events]
        assert numbers == [1, 2] and reader.gaps == []
        assert world["a"].event_log.failures == 0
