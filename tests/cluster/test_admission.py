from __future__ import annotations

import random
from ipaddress import ip_network
from typing import Any

import attrs
import pytest

from broker.cluster.address import Address
from broker.cluster.admission import (
    AdmissionContext,
    AdmissionRules,
    IpRules,
    find_refusal,
    is_same_node,
    surplus_members,
)
from broker.cluster.descriptor import Endpoint, NodeDescriptor
from broker.cluster.handshake_core import Refusal
from broker.cluster.handshake_messages import (
    GATEWAY,
    MAGIC,
    MEMBER,
    MOST_ALTERNATIVES,
    NONCE_BYTES,
    Alternative,
    NodeHello,
)
from broker.errors import (
    AddressNotAllowed,
    BrokerError,
    Cloned,
    ClusterFull,
    IncarnationRefused,
    NameTaken,
    Overloaded,
    ShuttingDown,
    TooManyLinks,
    WrongNetwork,
)
from tests.cluster.sample_nodes import a_node

RULES = AdmissionRules(most_nodes=3, most_links={"tcp": 2})
OWN = a_node("a.c1/n1")
N2 = a_node("a.c1/n2")
N3 = a_node("a.c1/n3")
NEWCOMER = a_node("/new")
OTHERS = (
    Alternative(Address(("a", "c2"), "m1"), Endpoint("m1", 1)),
    Alternative(Address(("b", "c9"), "k1"), Endpoint("k1", 1)),
)


def context(*members: NodeDescriptor, **fields: Any) -> AdmissionContext:
    everybody = {node.name: node for node in (OWN, *members)}
    return attrs.evolve(
        AdmissionContext(own=OWN, members=everybody, links={}, degrees={}, other_clusters=OTHERS),
        **fields,
    )


def hello(
    node: NodeDescriptor = NEWCOMER, purpose: str = MEMBER, cluster: tuple[str, ...] = ()
) -> NodeHello:
    return NodeHello(MAGIC, (1,), "net", node, purpose, cluster, bytes(NONCE_BYTES))


def refusal_of(
    hello_for: NodeHello,
    at: AdmissionContext,
    rules: AdmissionRules = RULES,
    host: str = "192.0.2.7",
    transport: str = "tcp",
) -> Refusal | None:
    return find_refusal(hello_for, host, transport, rules, at)


def refused(refusal: Refusal | None) -> type[BrokerError]:
    assert refusal is not None
    return type(refusal.error)


def test_a_node_is_admitted_if_there_is_room() -> None:
    assert refusal_of(hello(), context(N2)) is None
    assert refusal_of(hello(cluster=("a",)), context(N2)) is None


def test_a_full_cluster_names_other_clusters() -> None:
    refusal = refusal_of(hello(), context(N2, N3))
    assert refused(refusal) is ClusterFull
    assert refusal and refusal.alternatives == OTHERS
    refusal = refusal_of(hello(cluster=("a",)), context(N2, N3))
    assert refusal and refusal.alternatives == OTHERS[:1]


def test_a_member_comes_back_into_a_full_cluster() -> None:
    assert refusal_of(hello(N2._replace(incarnation=2)), context(N2, N3)) is None


def test_a_surplus_member_can_not_rejoin_through_another_member() -> None:
    n4 = a_node("a.c1/n4", admitted=9)
    assert refused(refusal_of(hello(n4), context(N2, N3, n4))) is ClusterFull
    assert refusal_of(hello(N3), context(N2, N3, n4)) is None
    # The time of admission on the map counts, not the claimed one.
    assert refused(refusal_of(hello(n4._replace(admitted=0)), context(N2, N3, n4))) is ClusterFull


def test_a_member_that_joins_again_keeps_its_place_in_a_full_cluster() -> None:
    assert refusal_of(hello(a_node("/n3")), context(N2, N3)) is None


def test_after_a_partition_the_oldest_members_stay() -> None:
    full = context(N2._replace(admitted=5), N3._replace(admitted=7))
    assert refusal_of(hello(a_node("a.c1/n4", admitted=6)), full) is None
    assert refused(refusal_of(hello(a_node("a.c1/n4", admitted=8)), full)) is ClusterFull


def test_gateways_do_not_count_as_members() -> None:
    assert refusal_of(hello(a_node("a.c2/m1"), GATEWAY), context(N2, N3)) is None


@pytest.mark.parametrize("far", ["a.c1/x", "a/x", "a.c1.d/x", "/x"])
def test_a_gateway_must_be_in_another_cluster(far: str) -> None:
    assert refused(refusal_of(hello(a_node(far), GATEWAY), context())) is WrongNetwork


@pytest.mark.parametrize("cluster", [("b",), ("a", "c2"), ("a", "c1", "d")])
def test_a_node_of_another_cluster_gets_alternatives_there(cluster: tuple[str, ...]) -> None:
    refusal = refusal_of(hello(cluster=cluster), context())
    assert refused(refusal) is WrongNetwork
    assert refusal is not None
    for other in refusal.alternatives:
        assert other.address.unit[: len(cluster)] == cluster


def test_two_nodes_do_not_have_one_name() -> None:
    other = N2._replace(origin="f" * 16)
    refusal = refusal_of(hello(other), context(N2))
    assert refused(refusal) is NameTaken
    assert refusal and refusal.alternatives == ()
    assert refused(refusal_of(hello(OWN), context())) is NameTaken


def test_an_older_process_is_refused() -> None:
    known = N2._replace(incarnation=5)
    assert refused(refusal_of(hello(N2), context(known))) is IncarnationRefused


def test_a_draining_node_names_other_members() -> None:
    leaving = OWN._replace(draining=True)
    at = context(N2, N3._replace(draining=True), own=leaving)
    refusal = refusal_of(hello(), at, attrs.evolve(RULES, most_nodes=9))
    assert refused(refusal) is ShuttingDown
    assert refusal and [each.address.node for each in refusal.alternatives] == ["n2", "m1", "k1"]


def test_an_overloaded_node_refuses_new_members_and_names_others() -> None:
    refusal = refusal_of(hello(), context(N2, is_overloaded=True))
    assert refused(refusal) is Overloaded
    assert refusal is not None
    assert [each.address.node for each in refusal.alternatives] == ["n2", "m1", "k1"]
    # Members and gateways keep their links.
    assert refusal_of(hello(N2), context(N2, is_overloaded=True)) is None
    assert refusal_of(hello(a_node("b.c9/k1"), GATEWAY), context(is_overloaded=True)) is None


def test_a_node_without_free_links_names_the_members_with_fewest_links() -> None:
    at = context(N2, N3, links={"tcp": 2}, degrees={"n2": 5, "n3": 1})
    refusal = refusal_of(hello(), at, attrs.evolve(RULES, most_nodes=9))
    assert refused(refusal) is TooManyLinks
    assert refusal and [each.address.node for each in refusal.alternatives][:2] == ["n3", "n2"]
    # A member without known links has none.
    refusal = refusal_of(
        hello(), attrs.evolve(at, degrees={"n2": 1}), attrs.evolve(RULES, most_nodes=9)
    )
    assert refusal and [each.address.node for each in refusal.alternatives][:2] == ["n3", "n2"]


def test_an_unlisted_transport_allows_no_links() -> None:
    assert refused(refusal_of(hello(), context(), transport="udp")) is TooManyLinks


def test_alternatives_are_bounded() -> None:
    many = OTHERS * MOST_ALTERNATIVES
    refusal = refusal_of(hello(), context(N2, N3, other_clusters=many))
    assert refusal and len(refusal.alternatives) == MOST_ALTERNATIVES


@pytest.mark.parametrize(
    ("rules", "host", "admits"),
    [
        (IpRules(), "10.1.2.3", True),
        (IpRules(), "a-pipe", True),
        (IpRules(allow=(ip_network("10.0.0.0/8"),)), "10.1.2.3", True),
        (IpRules(allow=(ip_network("10.0.0.0/8"),)), "::ffff:10.1.2.3", True),
        (IpRules(allow=(ip_network("10.0.0.0/8"),)), "192.0.2.1", False),
        (IpRules(allow=(ip_network("10.0.0.0/8"),)), "a-pipe", False),
        (IpRules(allow=(ip_network("10.0.0.0/8"),)), "2001:db8::1", False),
        (IpRules(allow=(ip_network("2001:db8::/32"),)), "2001:db8::1", True),
        (IpRules(deny=(ip_network("10.1.0.0/16"),)), "10.1.2.3", False),
        (IpRules(deny=(ip_network("10.1.0.0/16"),)), "10.2.2.3", True),
        (
            IpRules(allow=(ip_network("10.0.0.0/8"),), deny=(ip_network("10.1.0.0/16"),)),
            "10.1.2.3",
            False,
        ),
        (IpRules(segments=lambda: (ip_network("10.1.2.0/24"),)), "10.1.2.3", True),
        (IpRules(segments=lambda: (ip_network("10.1.2.0/24"),)), "10.1.3.3", False),
        (IpRules(segments=lambda: (ip_network("fe80::/64"),)), "fe80::7%eth0", True),
        (IpRules(segments=lambda: (ip_network("10.1.2.0/24"),)), "a-pipe", False),
        (IpRules(segments=tuple), "10.1.2.3", False),
    ],
)
def test_address_rules_restrict_members(rules: IpRules, host: str, admits: bool) -> None:
    assert rules.allows(host) is admits
    with_rules = attrs.evolve(RULES, is_address_allowed=rules.allows)
    refusal = refusal_of(hello(), context(), with_rules, host)
    assert (refusal is None) is admits
    assert admits or refused(refusal) is AddressNotAllowed
    # A gateway links to another segment by design.
    assert refusal_of(hello(a_node("a.c2/m1"), GATEWAY), context(), with_rules, host) is None


@pytest.mark.parametrize("seed", range(20))
def test_all_members_agree_on_the_surplus(seed: int) -> None:
    rng = random.Random(seed)
    nodes = [a_node(f"c/n{number}", admitted=rng.randint(0, 4)) for number in range(8)]
    answers = set()
    for _member in range(5):
        rng.shuffle(nodes)
        answers.add(surplus_members({node.name: node for node in nodes}, 5))
    assert len(answers) == 1
    (leaving,) = answers
    assert len(leaving) == 3
    stay = [node.admitted for node in nodes if node.name not in leaving]
    assert max(stay) <= min(node.admitted for node in nodes if node.name in leaving)
    assert surplus_members({node.name: node for node in nodes}, 8) == ()


def test_refusals_name_the_setting_to_change() -> None:
    def said(hello_for: NodeHello) -> str:
        refusal = refusal_of(hello_for, context(N2))
        assert refusal is not None
        return str(refusal.error)

    assert "n1 has dialled itself" in said(hello(OWN))
    assert "another node has the node.name n1" in said(hello(OWN._replace(origin="f" * 16)))
    assert "name the address in network.join" in said(hello(N3, GATEWAY))
    text = said(hello(a_node("b/m1"), cluster=("b",)))
    assert text == "n1 is of the cluster a.c1, and m1 asks for a link to b"


def test_an_earlier_process_of_a_reachable_member_runs_on_a_copy() -> None:
    earlier, later = (a_node("a.c1/n2", incarnation=number) for number in (3, 9))
    reachable = context(later, reachable=frozenset({"n2"}))
    assert refused(refusal_of(hello(earlier), reachable)) is Cloned
    assert refused(refusal_of(hello(earlier), context(later))) is IncarnationRefused
    assert refusal_of(hello(later), attrs.evolve(reachable, members={"n2": earlier})) is None


def test_a_transport_without_a_link_has_all_its_places() -> None:
    rules = attrs.evolve(RULES, most_links={"tcp": 1})
    assert refusal_of(hello(), context(), rules) is None
    assert refused(refusal_of(hello(), context(links={"tcp": 1}), rules)) is TooManyLinks


@pytest.mark.parametrize(
    ("origin", "incarnation", "same"),
    [("a" * 16, 5, True), ("a" * 16, 6, True), ("a" * 16, 4, False), ("b" * 16, 6, False)],
)
def test_a_later_process_on_the_same_log_is_the_same_node(
    origin: str, incarnation: int, same: bool
) -> None:
    known = a_node("a.c1/n2", origin="a" * 16, incarnation=5)
    assert is_same_node(known, a_node("/n2", origin=origin, incarnation=incarnation)) is same
    assert not is_same_node(known, a_node("/n3", origin="a" * 16, incarnation=5))
