from __future__ import annotations

import random
from collections import Counter

import pytest

from broker.transport import pending_connections
from broker.transport.pending_connections import PendingConnections, address_group


class Connections:
    """Numbers stand for connections."""

    def __init__(self, most: int = 8, of_address: int = 4) -> None:
        self.pending: PendingConnections[int] = PendingConnections()
        self.most, self.of_address = most, of_address
        self.number = 0
        self.now = 0.0

    def add(self, host: str) -> list[int]:
        self.number += 1
        return self.pending.add(
            *(self.number, host, self.now), most=self.most, most_of_address=self.of_address
        )


@pytest.mark.parametrize(
    ("host", "group"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("/run/xmlbroker", "/run/xmlbroker"),
    ],
)
def test_ipv6_addresses_count_as_their_network(host: str, group: str) -> None:
    assert address_group(host) == group


def test_full_address_refuses_newcomers_or_drops_an_old_connection() -> None:
    connections = Connections()
    assert [connections.add("a") for _ in range(5)] == [[], [], [], [], [5]]
    assert connections.add("b") == []
    connections.now = pending_connections.MIN_SECONDS
    assert connections.add("a") == [1]
    connections.pending.remove(3)
    assert connections.add("a") == []


def test_full_table_drops_the_oldest_of_the_fullest_address() -> None:
    connections = Connections(of_address=100)
    for host in ("a", "b", "b", "c", "b", "c"):
        assert connections.add(host) == []
    # A quarter of eight is reserved.
    assert connections.add("d") == [2]
    assert connections.add("d") == [4]
    connections.pending.remove(5)
    assert connections.add("e") == []
    assert len(connections.pending) == 6


def test_flood_of_unknown_addresses_leaves_a_share_to_known_ones() -> None:
    connections = Connections()
    connections.pending.add_known_address("2001:db8::1")
    known = []
    for number in range(100):
        connections.add(f"unknown-{number}")
        if number % 50 == 0:
            known.append(connections.number + 1)
            assert connections.add("2001:db8::2") == []
    assert len(connections.pending) == 8
    for each in known:
        connections.pending.remove(each)
    assert len(connections.pending) == 6
    # Beyond their share known addresses compete.
    assert connections.add("2001:db8::1") == connections.add("2001:db8::1") == []
    assert len(connections.add("2001:db8::1")) == 1


def test_no_room_refuses_the_newcomer_and_less_room_drops_others() -> None:
    connections = Connections(most=4)
    assert [connections.add(host) for host in "abc"] == [[], [], []]
    connections.most = 0
    assert connections.add("d") == [4]
    connections.most = 1
    assert connections.add("e") == [1, 2, 3]
    assert len(connections.pending) == 1


def test_known_addresses_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_connections, "MAX_KNOWN_ADDRESSES", 2)
    connections = Connections(most=4, of_address=1)
    for host in ("a", "b", "a", "c"):
        connections.pending.add_known_address(host)
    # All but `a` and `c` are unknown: one share of three.
    assert [connections.add(host) for host in ("b", "x", "y", "a")] == [[], [], [], []]
    assert len(connections.add("z")) == 1


def test_counts_hold_after_any_sequence() -> None:
    rng = random.Random(1)
    connections = Connections(most=20, of_address=6)
    hosts: dict[int, str] = {}
    for step in range(3000):
        connections.now = step / 20
        if rng.random() < 0.4 and hosts:
            number = rng.choice(list(hosts))
            del hosts[number]
            connections.pending.remove(number)
        else:
            host = f"host-{rng.randrange(12)}"
            if rng.random() < 0.02:
                connections.pending.add_known_address(host)
            dropped = connections.add(host)
            hosts[connections.number] = host
            for each in dropped:
                del hosts[each]
        counts = Counter(hosts.values())
        assert len(connections.pending) == len(hosts) <= 20
        most = max(counts.values(), default=0)
        # An address may have connections from before its first login.
        assert most / 2 <= connections.pending.most_of_one_address <= min(6, most)
