from __future__ import annotations

from collections.abc import Sequence

from broker.transport.arq.group_settings import GroupSettings
from broker.transport.arq.wire import DATA
from tests.transport.arq.datagram_members import Member, Members

SETTINGS = GroupSettings(datagram_bytes=400, patience=1.0)


def lose_data(members: Members, *numbers: int) -> None:
    def passes(datagram: bytes, source: object, target: object) -> bool:
        return not (datagram[0] == DATA and int.from_bytes(datagram[9:17], "big") in numbers)

    members.network.filter = passes


def test_packets_after_a_loss_are_delivered_when_the_sender_leaves() -> None:
    members = Members(0, "ab", settings=SETTINGS)
    here, there = members.all
    first = here.core.sender.highest + 1
    packets = [bytes([each]) * 300 for each in range(4)]
    here.send(packets[:1])
    members.run(lambda: bool(there.heard["a"]), 1.0)
    lose_data(members, first + 1)
    here.send(packets[1:])
    members.run(lambda: False, 0.003)
    here.group.stop()
    members.run(lambda: ("a", "vanished") in there.told, 1.0)
    assert there.heard["a"] == [packets[0], *packets[2:]]
    assert there.gaps == [1]


def test_packets_after_a_loss_are_delivered_when_the_sender_restarts() -> None:
    members = Members(0, "ab", settings=SETTINGS)
    here, there = members.all
    first = here.core.sender.highest + 1
    packets = [bytes([each]) * 300 for each in range(4)]
    here.send(packets[:1])
    members.run(lambda: bool(there.heard["a"]), 1.0)
    lose_data(members, first + 1)
    here.send(packets[1:])
    members.run(lambda: False, 0.003)
    members.network.unbind(("a", 1))
    here.group._is_stopped = True  # killed without a BYE
    here.group._timer.arm(None)
    Member("a", members, b"")
    members.run(lambda: there.told[-1:] == [("a", "appeared")] and len(there.told) > 2, 0.9)
    assert there.heard["a"] == [packets[0], *packets[2:]]
    assert there.gaps == [1]


def test_a_loss_at_the_very_beginning_is_reported() -> None:
    members = Members(0, "abc", settings=SETTINGS)
    members.all[0].send([b"before"])
    members.run(lambda: bool(members.all[1].heard["a"]), 1.0)
    late = Member("d", members, b"")
    here = members.all[0]
    members.run(lambda: ("d", "appeared") in here.told and ("a", "appeared") in late.told, 1.0)
    lose_data(members, here.core.sender.highest + 1)
    here.send([bytes([each]) * 300 for each in range(3)])
    members.run(lambda: len(late.heard["a"]) == 2, 5.0)
    assert late.heard["a"] == [bytes([each]) * 300 for each in (1, 2)]
    assert late.gaps == [1]


def test_an_error_with_one_sender_loses_nothing_of_another() -> None:
    members = Members(0, "abc", settings=SETTINGS)
    a, b, c = members.all
    heard: list[tuple[str, bytes]] = []

    def packets_received(sender: str, packets: Sequence[bytes]) -> None:
        heard.extend((sender, packet) for packet in packets)
        if sender == "a":
            raise RuntimeError("trouble")

    c.packets_received = packets_received  # type: ignore[method-assign]
    a.send([b"from a"])
    b.send([b"from b"])  # comes in the same read
    members.run(lambda: False, 5.0)
    assert ("b", b"from b") in heard


def test_a_sender_removed_while_silent_is_accepted_again() -> None:
    settings = GroupSettings(senders=1, announce=0.5, liveness=2.0)
    members = Members(0, "ab", settings=settings)
    a, b = members.all
    members.network.cut(members.address("a"), members.address("b"))
    members.run(lambda: a.told[-1] == ("b", "vanished"), 5.0)
    c = Member("c", members, b"")
    members.network.cut(members.address("c"), members.address("b"))
    members.run(lambda: ("c", "appeared") in a.told, 2.0)
    c.group.stop()
    members.run(lambda: ("c", "vanished") in a.told, 2.0)
    members.network.heal()
    members.run(lambda: a.told[-1] == ("b", "appeared"), 10.0)
    assert a.told[-1] == ("b", "appeared")
    b.send([b"after"])
    members.run(lambda: bool(a.heard["b"]), 2.0)
    assert a.heard["b"] == [b"after"]


def test_packets_of_a_silent_sender_after_a_loss_are_delivered_when_it_is_removed() -> None:
    settings = GroupSettings(datagram_bytes=400, patience=60.0, senders=1, liveness=2.0)
    members = Members(0, "ab", settings=settings)
    here, there = members.all
    first = here.core.sender.highest + 1
    packets = [bytes([each]) * 300 for each in range(4)]
    here.send(packets[:1])
    members.run(lambda: bool(there.heard["a"]), 1.0)
    lose_data(members, first + 1)
    here.send(packets[1:])
    members.run(lambda: False, 0.003)
    members.network.cut(members.address("a"), members.address("b"))
    members.run(lambda: there.told[-1] == ("a", "vanished"), 5.0)
    Member("c", members, b"")
    members.run(lambda: ("c", "appeared") in there.told, 2.0)
    assert there.heard["a"] == [packets[0], *packets[2:]]
    assert there.gaps == [1]
