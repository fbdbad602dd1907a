from __future__ import annotations

from unittest.mock import Mock, call

import pytest

from broker.cluster import acceptor as acceptors
from broker.cluster.acceptor import (
    HANDSHAKE_BURST,
    HANDSHAKES_PER_SECOND,
    LEASE,
    MOST_HANDSHAKES,
    Acceptor,
)
from broker.cluster.admission import AdmissionContext, AdmissionRules
from broker.cluster.descriptor import NodeDescriptor
from broker.cluster.handshake_core import Admission, Refusal
from broker.cluster.handshake_messages import GATEWAY, MAGIC, MEMBER, NONCE_BYTES, NodeHello
from broker.errors import ClusterFull, NameTaken
from tests.cluster.sample_nodes import a_node

OWN = a_node("a.c1/n1")
RULES = AdmissionRules(most_nodes=2, most_links={"tcp": 9})


class Member:
    def __init__(self) -> None:
        self.members: dict[str, NodeDescriptor] = {"n1": OWN}
        self.acceptor: Acceptor[int] = Acceptor(RULES, self.context)

    def context(self) -> AdmissionContext:
        return AdmissionContext(OWN, dict(self.members), {}, {}, ())

    def decide(
        self, node: NodeDescriptor, now: float, purpose: str = MEMBER
    ) -> Admission | Refusal:
        hello = NodeHello(MAGIC, (1,), "net", node, purpose, (), bytes(NONCE_BYTES))
        return self.acceptor.decide_admission(
            hello, "192.0.2.1", "tcp", now, wall_ms=int(1000 * now)
        )


def test_an_admitted_node_gets_its_new_address() -> None:
    decision = Member().decide(a_node("/n2"), 5.0)
    assert isinstance(decision, Admission)
    assert str(decision.peer.address) == "a.c1/n2"
    assert decision.peer.admitted == 5000
    assert decision.members == (OWN,)


def test_the_last_place_is_leased_once() -> None:
    member = Member()
    assert isinstance(member.decide(a_node("/n2"), 5.0), Admission)
    refusal = member.decide(a_node("/n3"), 5.1)
    assert isinstance(refusal, Refusal) and isinstance(refusal.error, ClusterFull)
    other_origin = member.decide(a_node("/n2", origin="f" * 16), 5.2)
    assert isinstance(other_origin, Refusal) and isinstance(other_origin.error, NameTaken)


def test_a_reconnecting_node_keeps_its_place() -> None:
    member = Member()
    first = member.decide(a_node("/n2"), 5.0)
    again = member.decide(a_node("/n2", incarnation=2), 6.0)
    assert isinstance(first, Admission) and isinstance(again, Admission)
    assert again.peer.admitted == first.peer.admitted == 5000


def test_an_expired_lease_frees_the_place() -> None:
    member = Member()
    member.decide(a_node("/n2"), 5.0)
    assert isinstance(member.decide(a_node("/n3"), 5.0 + LEASE - 0.1), Refusal)
    assert isinstance(member.decide(a_node("/n3"), 5.0 + LEASE), Admission)


def test_a_lease_ends_when_the_node_is_on_the_map() -> None:
    member = Member()
    member.decide(a_node("/n2"), 5.0)
    member.members["n2"] = a_node("a.c1/n2", admitted=5000)
    assert isinstance(member.decide(a_node("/n3"), 6.0), Refusal)
    del member.members["n2"]
    assert isinstance(member.decide(a_node("/n3"), 6.1), Admission)


def test_a_configured_member_has_no_time_of_admission() -> None:
    decision = Member().decide(a_node("a.c1/n2"), 5.0)
    assert isinstance(decision, Admission) and decision.peer.admitted == 0


def test_a_gateway_takes_no_place() -> None:
    member = Member()
    decision = member.decide(a_node("a.c2/m1"), 5.0, GATEWAY)
    assert isinstance(decision, Admission)
    assert decision.members == ()
    assert isinstance(member.decide(a_node("/n2"), 5.0), Admission)


def test_concurrent_handshakes_are_bounded_for_each_address_and_in_all() -> None:
    acceptor: Acceptor[int] = Acceptor(RULES, Member().context, most_per_host=2)
    assert [acceptor.start_handshake(n, "one", 0.0) for n in (1, 2, 3)] == [[], [], [3]]
    acceptor.end_handshake(1)
    assert acceptor.start_handshake(4, "one", 0.0) == []
    # An old one gives way.
    assert acceptor.start_handshake(5, "one", 2.0) == [2]
    started = [acceptor.start_handshake(n, f"host-{n}", 2.0) for n in range(10, 200)]
    assert acceptor.under_way <= MOST_HANDSHAKES
    assert all(n not in dropped for n, dropped in enumerate(started, 10))
    assert acceptor.dropped == 2 + sum(map(len, started))


def test_strangers_leave_a_share_to_addresses_of_accepted_nodes() -> None:
    acceptor: Acceptor[int] = Acceptor(RULES, Member().context)
    acceptor.start_handshake(1, "member", 0.0)
    acceptor.end_handshake(1, accepted_host="member")
    assert acceptor.start_handshake(2, "member", 0.0) == []
    for number in range(10, 200):
        assert 2 not in acceptor.start_handshake(number, f"host-{number}", 0.0)


def test_rate_of_handshakes_is_bounded_for_each_address() -> None:
    acceptor = Member().acceptor
    let_in = 0
    for tick in range(10_000):
        if not acceptor.start_handshake(tick, "host", tick / 1000):
            let_in += 1
            acceptor.end_handshake(tick)
    assert let_in <= HANDSHAKE_BURST + 10 * HANDSHAKES_PER_SECOND
    assert let_in >= 10 * HANDSHAKES_PER_SECOND
    while acceptor.start_handshake(-1, "host", 10.0) != [-1]:
        acceptor.end_handshake(-1)
    assert acceptor.start_handshake(-2, "other", 10.0) == []


def start(acceptor: Acceptor[int], host: str, times: int = 1, now: float = 0.0) -> list[bool]:
    """Return for each of some handshakes, which end at once, whether it has begun."""
    begun = []
    for _ in range(times):
        begun.append(acceptor.start_handshake(1, host, now) == [])
        acceptor.end_handshake(1)
    return begun


def test_an_address_has_a_burst_of_handshakes_and_no_more() -> None:
    acceptor = Member().acceptor
    acceptor.limit = limit = Mock()
    assert start(acceptor, "host", HANDSHAKE_BURST) == [True] * HANDSHAKE_BURST
    limit.count_reached.assert_not_called()
    assert start(acceptor, "host", 2) == [False, False]
    assert limit.count_reached.mock_calls == [call(1), call(1)]


def test_the_address_without_a_handshake_for_longest_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(acceptors, "MAX_MEASURED_ADDRESSES", 2)
    acceptor = Member().acceptor
    for host in ("one", "two"):
        start(acceptor, host, HANDSHAKE_BURST)
    assert start(acceptor, "one") == start(acceptor, "two") == [False]
    start(acceptor, "one")
    assert start(acceptor, "three") == [True]
    assert start(acceptor, "one") == [False]
    assert start(acceptor, "two") == [True]
