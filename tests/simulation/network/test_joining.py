from __future__ import annotations

from typing import Any

import pytest

from broker.cluster.address import UnitPath
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, read_logs
from tests.seeds import seeds
from tests.simulation.network.simulated_client import settle

KEY = b"k" * 32


def members_by_unit(world: NetworkWorld) -> dict[UnitPath, set[str]]:
    found: dict[UnitPath, set[str]] = {}
    for name in world.running:
        knowledge = world.network_of(name).state
        if knowledge is not None:
            found.setdefault(knowledge.address.unit, set()).add(name)
    return found


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_ten_nodes_join_at_once_and_deliver_events(seed: int) -> None:
    with NetworkWorld(seed) as world:
        names = [f"n{number}" for number in range(10)]
        world.add(names[0], "c")
        for name in names[1:]:
            world.add(name, join=names[:1])
        world.run(15.0)
        assert members_by_unit(world) == {("c",): set(names)}
        missing = [(a, b) for a in names for b in names if a < b and not world.are_linked(a, b)]
        assert missing == []
        publishers = [Publisher(world.client(f"p-{name}", name)) for name in names[::3]]
        readers = [Reader(world, world.client(f"r-{name}", name)) for name in names]
        world.run_until(lambda: all(reader.is_flowing for reader in readers))
        for _ in range(10):
            for publisher in publishers:
                publisher.publish()
            world.run(0.02)
        settle(world, publishers, readers)
        assert all(len(reader.events) == 40 for reader in readers)


@pytest.mark.parametrize("seed", seeds(1, 2))
def test_node_founds_a_cluster_when_another_is_full(seed: int) -> None:
    with NetworkWorld(seed) as world:
        names = [f"n{number}" for number in range(7)]
        world.add(names[0], "top.c", max_nodes=3)
        for name in names[1:]:
            world.add(name, join=names[:1], max_nodes=3)
        world.run(90.0)
        found = members_by_unit(world)
        assert sum(map(len, found.values())) == 7, found
        assert all(len(members) <= 3 for members in found.values()), found
        assert all(unit[:1] == ("top",) for unit in found)
        publisher = Publisher(world.client("publisher", names[-1]))
        readers = [Reader(world, world.client(f"r-{name}", name)) for name in names]
        world.run_until(lambda: all(reader.is_flowing for reader in readers))
        for _ in range(10):
            publisher.publish()
            world.run(0.02)
        settle(world, [publisher], readers)
        assert all(len(reader.events) == 10 for reader in readers)


@pytest.mark.parametrize(
    ("cluster", "key", "settings", "code"),
    [
        ("", KEY, {"name": "another"}, "wrong-network"),
        ("", b"x" * 32, {}, "authentication-failed"),
        ("", None, {}, "authentication-failed"),
        ("elsewhere", KEY, {}, "wrong-network"),
    ],
    ids=["network", "key", "no key", "cluster"],
)
def test_foreign_node_is_refused_and_retries_with_backoff(
    cluster: str, key: bytes | None, settings: dict[str, Any], code: str
) -> None:
    with NetworkWorld(1) as world:
        world.add("a", "c", key_file=world.key_file(KEY))
        key_file = None if key is None else world.key_file(key)
        world.add("b", cluster, join=["a"], key_file=key_file, **settings)
        world.run(20.0)
        refused = {
            name: set(world.network_of(name).membership.failed_handshakes) for name in world.names
        }
        assert not world.are_linked("a", "b")
        assert code in refused["a"] | refused["b"], refused
        assert len(list(world.network_of("a").neighbours)) == 0
        # With backoff.
        counts = world.network_of("a").membership.failed_handshakes
        assert sum(counts.values()) <= 10, counts


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_node_without_free_links_refers_to_others(seed: int) -> None:
    with NetworkWorld(seed) as world:
        world.add("a", "c", max_tcp_links=2)
        for name in "bcdef":
            world.add(name, join=["a"])
            world.run(1.0)
        world.run(40.0)
        assert members_by_unit(world) == {("c",): set("abcdef")}
        assert world.network_of("a").neighbours.count_links("tcp") == 2
        publisher = Publisher(world.client("publisher", "a"))
        readers = [Reader(world, world.client(f"r-{name}", name)) for name in "abcdef"]
        world.run_until(lambda: all(reader.is_flowing for reader in readers))
        publisher.publish()
        settle(world, [publisher], readers)
        assert all(len(reader.events) == 1 for reader in readers)


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_node_without_its_disk_is_a_new_origin_with_the_same_name(seed: int) -> None:
    with NetworkWorld(seed) as world:
        world.add("a", "c")
        world.add("b", "c", join=["a"])
        world.run(3.0)
        publisher = Publisher(world.client("publisher", "b"))
        reader = Reader(world, world.client("reader", "a"))
        world.run(2.0)
        for _ in range(5):
            publisher.publish()
        world.run(1.0)
        logs = read_logs(world)
        world.kill("b")
        world.lose_disk("b")
        world.run(world.random.uniform(0.1, 20.0))
        world.start("b")
        world.run(40.0)
        assert world.are_linked("a", "b")
        for _ in range(5):
            publisher.publish()
        settle(world, [publisher], [reader], seen=logs)
        assert len(reader.events) == 10
