from __future__ import annotations

from collections.abc import Sequence

from tests.transport.arq.datagram_members import Member, Members


class Deaf:
    """While this holds, `deaf` receives no group traffic, but unicast."""

    def __init__(self, members: Members, *deaf: Member) -> None:
        self.holds = True
        self._to_group = False
        addresses = [members.address(each.name) for each in deaf]
        carry = members.network._send_one

        def carry_to(datagram: bytes, source: object, target: object) -> None:
            if not (self.holds and self._to_group and target in addresses):
                carry(datagram, source, target)

        members.network._send_one = carry_to  # type: ignore[method-assign]
        for member in members.all:
            member.group._to_group = self._marked(member.group._to_group)

    def _marked(self, to_group):  # type: ignore[no-untyped-def]
        def send(datagrams: Sequence[bytes]) -> None:
            self._to_group = True
            to_group(datagrams)
            self._to_group = False

        return send


def test_a_deaf_member_is_not_reachable() -> None:
    members = Members(0, "abc", wait=False)
    a, b, c = members.all
    Deaf(members, b)
    # It has received the datagrams in flight.
    members.run(lambda: False, 2 * members.settings.liveness)
    assert ("b", "appeared") in a.told
    assert (a.reachable, b.reachable, c.reachable) == ({"c"}, set(), {"a"})


def test_lost_and_regained_reachability_are_reported() -> None:
    members = Members(0, "ab")
    a, b = members.all
    members.run(lambda: a.reachable == {"b"} and b.reachable == {"a"}, 1.0)
    deaf = Deaf(members, b)
    liveness = members.settings.liveness
    # It confirms once more before it misses anything.
    took = members.run(lambda: a.reachable == set(), 3 * liveness)
    assert took <= 2 * liveness
    assert a.told == [("b", "appeared")], "it is there: what it sends is heard"
    deaf.holds = False
    assert members.run(lambda: a.reachable == {"b"}, liveness) <= members.settings.announce + 0.1


def test_a_reachable_member_stays_reachable() -> None:
    members = Members(0, "abc")
    for _ in range(30):
        members.run(lambda: False, 1.0)
        assert [each.reachable for each in members.all] == [{"b", "c"}, {"a", "c"}, {"a", "b"}]
