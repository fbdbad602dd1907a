"""Messages that two sequencers have numbered, as subscriptions see them."""

from __future__ import annotations

import pyarrow as pa

from broker.archive.archive import Archive
from broker.archive.row_order import sort_and_deduplicate
from broker.archive.table import complete_columns
from broker.client.received import ALL
from broker.event.order_entry import MessageId, decode_order_entry
from broker.event.site_notice import MovedMessages
from broker.testing.determinism import deterministic
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_reader import Reader
from broker.testing.transport_network import CARRIED
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


def test_the_history_of_each_site_and_the_archive_are_one_transcript() -> None:
    with deterministic(5), NetworkWorld(5, archived=True) as world:
        group = Group(world, "sequencer", 3)
        world.run(2.0)
        for pair in (("n0", "n1"), ("n1", "n2")):
            group.network.cut_datagrams(*pair)
            group.network.publish(5)
            # The archive has events before their messages move.
            world.run(20.0)
        before = read_archive(world)
        group.settle()
        world.kill("n0")
        world.start("n0")
        world.run(30.0)
        readers = [group.network.subscribe(f"late-{name}", name, start=ALL) for name in world.names]
        world.run(30.0)
        (first, moved), *others = map(places, readers)
        assert len(first) > 30 and not moved
        assert all(other == (first, 0) for other in others)
        archived = read_archive(world)
        assert archived == first
        assert any(archived[id] != place for id, place in before.items())


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


def read_archive(world: NetworkWorld) -> dict[MessageId, tuple[int, str]]:
    """Return the place of each message."""
    assert world.archive is not None
    archive = Archive.open(world.archive.uri, create=False)
    tables = [
        pa.Table.from_batches([complete_columns(batch)])
        for file in archive.state().files.values()
        for batch in archive.read(file, checked=True)
    ]
    found = {}
    for row in sort_and_deduplicate(pa.concat_tables(tables)).to_pylist():
        if row["stream"] != CARRIED:
            continue
        entry = decode_order_entry(row["annotation"])
        assert entry is not None and entry.stamp is not None
        found[entry.id] = entry.stamp, entry.tie or entry.site
        assert found[entry.id] == (row["stack_order"], row["stack_site"])
    return found


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
