"""Messages that two sequencers have numbered, as subscriptions see them."""

from __future__ import annotations

from broker.event.order_entry import MessageId
from broker.event.site_notice import MovedMessages
from broker.testing.determinism import deterministic
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_reader import Reader
from tests.simulation.network.rcm_group import SiteGroup
from tests.simulation.network.test_rcm import Group


def test_subscriptions_at_two_sites_learn_one_place_for_each_message() -> None:
    with deterministic(5), NetworkWorld(5) as world:
        group = Group(world, "sequencer", 3)
        world.run(2.0)
        # Each has the events of the other from its log, and numbers them.
        group.network.cut_datagrams("n0", "n1")
        group.network.publish(5)
        world.run(20.0)
        group.network.publish(5)
        group.settle()
        readers = [group.network.readers[f"all-{name}"][0] for name in ("n0", "n1")]
        (first, moved_first), (second, moved_second) = map(places, readers)
        assert moved_first and moved_second
        assert first == second and len(first) > 30


def test_events_that_a_newcomer_read_without_their_numbers_get_them() -> None:
    with deterministic(3), NetworkWorld(3) as world:
        group = SiteGroup(world, "sequencer", 3)
        old = group.network.subscribe("old", "n0")
        world.run(2.0)
        group.network.publish(3)
        world.run(2.0)
        group.add_newcomer("n3", "n0")
        new = group.network.subscribe("new", "n3", waits=False)
        world.run(5.0)
        group.admit("n0", "n3")
        group.wait_until_connected("n0", "n1", "n2", "n3")
        group.network.publish(1)
        world.run(10.0)
        expected, moved = places(old)
        assert len(expected) == 12 and moved == 0
        assert places(new)[0] == expected


def places(reader: Reader) -> tuple[dict[MessageId, tuple[int, str]], int]:
    """Return the last place of each message, and the number of messages that have moved."""
    reader.read()
    found: dict[MessageId, tuple[int, str]] = {}
    for event in reader.events:
        entry = event.order
        if entry is not None and entry.stamp is not None:
            found[entry.id] = entry.stamp, entry.tie or entry.site
    moves = {
        (each.site, each.incarnation, each.number): (each.stamp, each.tie)
        for _, notice in reader.notices
        if isinstance(notice, MovedMessages)
        for each in notice.moves
    }
    return found | moves, len(moves)
