"""Members of a group on a bad network: seeded schedules in virtual time (A20)."""

from __future__ import annotations

from random import Random

import pytest

from broker.testing.datagram_network import DatagramFaults
from broker.transport.arq.group_settings import GroupSettings
from tests.seeds import seeds
from tests.transport.arq.datagram_members import Member, Members

SEEDS = 300


def drawn_faults(random: Random) -> DatagramFaults:
    return DatagramFaults(
        loss=random.choice([0.0, 0.05, 0.1, 0.2, 0.4]),
        duplication=random.choice([0.0, 0.1]),
        corruption=random.choice([0.0, 0.05]),
        delay=random.choice([0.0001, 0.005, 0.05]),
        jitter=random.choice([0.0, 0.01, 0.05]),
    )


def drawn_packets(random: Random, count: int) -> list[bytes]:
    sizes = [random.choice([1, 20, 262, 800, 5000]) for _ in range(count)]
    return [random.randbytes(random.randint(1, size)) for size in sizes]


@pytest.mark.parametrize("batch", seeds(1, SEEDS // 25))
def test_every_member_receives_every_other_once_and_in_order(batch: int) -> None:
    for seed in range(25 * batch, 25 * batch + 25):
        try:
            run_schedule(seed)
        except BaseException:
            print(f"the seed is {seed}")
            raise


def run_schedule(seed: int) -> None:
    random = Random(seed)
    settings = GroupSettings(patience=60.0, liveness=60.0, datagram_bytes=400, rate=1e6)
    names = "abcd"[: random.randint(2, 4)]
    members = Members(seed, names, drawn_faults(random), settings)
    sent = {name: drawn_packets(random, random.choice([0, 10, 60])) for name in names}
    for member in members.all:
        member.send(sent[member.name])

    def complete(member: Member) -> bool:
        others = [name for name in names if name != member.name]
        return all(len(member.heard[name]) >= len(sent[name]) for name in others)

    members.run(lambda: all(map(complete, members.all)), 60.0)
    for member in members.all:
        for name in names:
            if name != member.name:
                assert member.heard[name] == sent[name]
        assert not member.gaps
    members.stop()
    members.run(lambda: False, 60.0)
    assert members.clock.getDelayedCalls() == []


@pytest.mark.parametrize("seed", seeds(10, 100))
def test_unrecoverable_packets_are_reported_by_count(seed: int) -> None:
    random = Random(seed)
    settings = GroupSettings(history_bytes=3000, patience=0.3, datagram_bytes=400, rate=1e6)
    members = Members(seed, "ab", DatagramFaults(loss=0.3, jitter=0.005), settings)
    here, there = members.all
    sent = [b"%d " % number + bytes(random.randrange(600)) for number in range(200)]
    for start in range(0, 200, 20):
        here.send(sent[start : start + 20])
        members.run(lambda: False, random.uniform(0.0, 0.05))
    members.network.faults = DatagramFaults()
    here.send([b"200 last"])
    members.run(lambda: there.heard["a"][-1:] == [b"200 last"], 10.0)
    heard = [int(packet.split()[0]) for packet in there.heard["a"]]
    assert heard == sorted(set(heard))
    assert len(heard) + sum(map(int, map(str, there.gaps))) == 201
    assert there.gaps


def test_a_member_that_was_cut_off_gets_a_loss_and_the_others_get_everything() -> None:
    settings = GroupSettings(liveness=2.0, announce=0.5, history_bytes=3000, datagram_bytes=400)
    members = Members(3, "abc", settings=settings)
    a, b, c = members.all
    members.network.cut(members.address("a"), members.address("c"))
    packets = [b"%d" % number for number in range(1000)]
    a.send(packets)
    members.run(lambda: False, 5.0)
    assert b.heard["a"] == packets
    assert c.heard["a"] == []
    assert ("a", "vanished") in c.told
    members.network.heal()
    members.run(lambda: c.told[-1] == ("a", "appeared"), 5.0)
    a.send([b"after"])
    members.run(lambda: b"after" in c.heard["a"], 10.0)
    assert b.heard["a"] == [*packets, b"after"]
    assert c.heard["a"] == [*packets, b"after"][-len(c.heard["a"]) :]
    assert c.gaps == [1001 - len(c.heard["a"])]


@pytest.mark.parametrize("seed", seeds(8, 50))
def test_a_member_known_to_a_sender_receives_all_its_later_packets(seed: int) -> None:
    """Also if it does not know the sender yet, because announcements were lost."""
    settings = GroupSettings(patience=60.0, liveness=60.0)
    members = Members(seed, "ab", DatagramFaults(loss=0.4), settings, wait=False)
    here, there = members.all
    members.run(lambda: bool(here.told), 20.0)
    packets = [b"%d" % number for number in range(100)]
    here.send(packets)
    members.run(lambda: len(there.heard["a"]) == 100, 30.0)
    assert there.heard["a"] == packets


def test_repairs_for_many_go_to_the_group_and_for_one_to_that_member() -> None:
    members = Members(4, "abcdef")
    sender, *others = members.all
    lost: list[bytes] = []

    def lose_for_all(datagram: bytes, source: object, target: object) -> bool:
        if datagram[0] == 6 and datagram not in lost[:1]:
            lost.append(datagram)
        return not (datagram[0] == 6 and datagram == lost[0] and members.clock.seconds() < until)

    until = members.clock.seconds() + 0.005
    members.network.filter = lose_for_all
    sender.send([b"lost by all"])
    members.run(lambda: False, 0.01)
    sender.send([b"next"])
    members.run(lambda: False, 1.0)
    assert all(each.heard["a"] == [b"lost by all", b"next"] for each in others)
    assert sender.core.sender.repaired_to_all == 1
    assert sender.core.sender.repaired == 0
    members.network.filter = lambda datagram, source, target: target != ("b", 1)
    sender.send([b"lost by one"])
    members.run(lambda: False, 0.01)
    members.network.filter = lambda *_: True
    sender.send([b"last"])
    members.run(lambda: False, 1.0)
    assert all(each.heard["a"][2:] == [b"lost by one", b"last"] for each in others)
    assert sender.core.sender.repaired_to_all == 1
    assert sender.core.sender.repaired == 1
