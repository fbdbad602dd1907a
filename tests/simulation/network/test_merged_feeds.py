from __future__ import annotations

from typing import Any, cast

import pytest

from broker.client.client import Client
from broker.client.merged import MergedEvent, MergedSubscription, Merging
from broker.client.received import STORED
from broker.event.envelope import EventLinkage, EventType, Order
from broker.event.merging.resolution import Row, resolve
from broker.testing.simulated_network import NetworkWorld
from tests.seeds import seeds
from tests.simulation.network.topologies import SHAPES

PLANS, TRACKS = "asdi.zbw.fp", "asdi.zbw.tz"
LINKAGE = EventLinkage(time_constraint="within 300ms", order=(Order(PLANS), Order(TRACKS)))


def subscribe(world: NetworkWorld, client: Client) -> MergedSubscription:
    asked = client.subscribe(durable="d", start=STORED, merge=Merging(wait=2.0))
    found: list[MergedSubscription] = []
    asked.addCallback(found.append)  # type: ignore[attr-defined]
    world.run_until(lambda: bool(found))
    return found[0]


@pytest.mark.parametrize("seed", seeds(1, 6))
def test_feeds_of_two_origins_merge_and_a_kill_loses_nothing(seed: int) -> None:
    with NetworkWorld(seed, jitter=0.03) as world:
        random = world.random
        SHAPES[seed % len(SHAPES)](world, 3)
        world.run(4.0)
        first, second, third, *_ = world.names
        desk, radar = world.client("desk", first), world.client("radar", third)
        reader = world.client("reader", second)
        subscription = subscribe(world, reader)
        events: list[MergedEvent] = []
        published: list[str] = []
        for turn in range(150):
            for client, stream, rate in ((desk, PLANS, 0.2), (radar, TRACKS, 0.6)):
                if turn in (0, 149) or random.random() < rate:
                    kind = EventType("flight", "1.0")
                    payload = b"<flight><id>U</id><flightleg/></flight>"
                    asked: Any = client.publish(stream, payload, kind, linkage=LINKAGE)
                    asked.addCallback(lambda receipt: published.append(str(receipt.event_id)))
            events += cast("list[MergedEvent]", subscription.take_ready())
            world.run(random.choice((0.01, 0.05, 0.2)))
            if turn == 75:
                assert len({event.place.origin for event in events}) == 2
                before = {str(event.event_id) for event in events}
                assert not any(event.late for event in events)
                world.kill_client(reader)
                reader = world.client("reader", second, incarnation=2)
                subscription = subscribe(world, reader)
                events = []
        for _ in range(100):
            events += cast("list[MergedEvent]", subscription.take_ready())
            world.run(0.05)
        after = [str(event.event_id) for event in events]
        assert len(set(after)) == len(after), f"seed {seed}"
        assert before | set(after) == set(published), f"seed {seed}"
        made = [Row(e.stream, e.event_id, LINKAGE) for e in events if not e.late]
        assert resolve(made) == list(range(len(made))), f"seed {seed}"
