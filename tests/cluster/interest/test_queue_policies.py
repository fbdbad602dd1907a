"""Queue policies travel with interest: the least lossy of all subscriptions below counts."""

from __future__ import annotations

import random

import pytest

from broker.cluster.interest.effects import InterestAdded, QueuePoliciesChanged
from broker.cluster.interest.queue_policies import QUEUE_KINDS, decode_policy, encode_policy
from broker.cluster.messages import CHANGED, REPLACED, Update, Value
from broker.cluster.tables.effects import TableChanged
from broker.event.stream import StreamPattern
from broker.matching.query.query import parse_query
from broker.streams.queue_policy import (
    BLOCK,
    DROP_OLDEST,
    FAIL,
    Coalesce,
    IQueuePolicy,
    merge_policies,
    parse_queue_policy,
)
from tests.cluster.interest.network import (
    MAX_QUERIES,
    PATTERNS,
    STREAMS,
    TEXTS,
    VALUES,
    Event,
    EventNetwork,
    ProfileNode,
    matches,
)
from tests.cluster.interest.test_core import C1, C2, given, made, pair, settle
from tests.seeds import seeds


def add(node: ProfileNode, number: int, pattern: str, query: str, policy: str) -> None:
    node.add_interest(number, pattern, query)
    node.set_policy(number, policy)


def queue_tables(node: ProfileNode) -> list[str]:
    return [key.kind for kind in QUEUE_KINDS.values() for key, _ in node.tables.items(kind)]


def test_the_policy_of_a_subscription_reaches_the_other_nodes() -> None:
    network, one, two = pair(C1, C1)
    add(two, 1, "s.x", "/a", "coalesce:/a/@id")
    add(two, 2, "s.y", "/a", "block")
    network.live(1)
    assert one.policies_by_query("two") == {
        ("s.x", "/a"): "coalesce:/a/@id",
        ("s.y", "/a"): "block",
    }
    assert one.policies == {"two": dict.fromkeys(one.policies["two"], "coalesce:/a/@id")}
    two.remove_interest(1)
    network.live(1)
    assert one.policies == {"two": {}}


def test_nodes_without_policies_have_no_table_of_them() -> None:
    network, one, two = pair(C1, C1)
    for number in range(2 * MAX_QUERIES):
        two.add_interest(number, "s.x", TEXTS[number])
        two.set_policy(number, "block")
    network.live(1)
    two.remove_interest(1)
    network.live(1)
    assert queue_tables(one) == queue_tables(two) == [] and one.policies == {}


def test_covered_interest_with_another_policy_makes_it_block() -> None:
    network, one, two = pair(C1, C1)
    add(two, 1, ">", "/a", "drop-oldest")
    add(two, 2, "s.x", "/a/b > 3", "drop-oldest")
    network.live(1)
    assert one.policies_by_query("two") == {(">", "/a"): "drop-oldest"}
    for policy in ("drop-newest", "fail", "coalesce"):
        two.set_policy(2, policy)
        network.live(1)
        assert one.policies_by_query("two") == {(">", "/a"): "block"}
    two.set_policy(2, "drop-oldest")
    network.live(1)
    assert one.policies_by_query("two") == {(">", "/a"): "drop-oldest"}
    two.set_policy(1, "fail")
    network.live(1)
    assert one.policies_by_query("two") == {(">", "/a"): "block"}
    two.remove_interest(1)
    network.live(1)
    assert one.policies_by_query("two") == {("s.x", "/a/b > 3"): "drop-oldest"}


def test_the_same_interest_without_a_policy_makes_it_block() -> None:
    network, one, two = pair(C1, C1)
    add(two, 1, "s.x", "/a", "fail")
    network.live(1)
    two.add_interest(2, "s.x", "/a")
    network.live(1)
    assert one.policies_by_query("two") == {("s.x", "/a"): "block"}
    two.remove_interest(2)
    network.live(1)
    assert one.policies_by_query("two") == {("s.x", "/a"): "fail"}


def test_widened_interest_blocks() -> None:
    network, one, two = pair(C1, C1)
    for number in range(MAX_QUERIES):
        add(two, number, "s.x", f"/a/b = {number}", "fail")
    network.live(1)
    assert set(one.policies_by_query("two").values()) == {"fail"}
    add(two, MAX_QUERIES, "s.x", f"/a/b = {MAX_QUERIES}", "fail")
    network.live(1)
    assert set(one.policies_by_query("two").values()) == {"block"}
    two.remove_interest(0)
    network.live(1)
    assert set(one.policies_by_query("two").values()) == {"fail"}


def test_members_of_a_unit_merge_to_the_least_lossy_policy() -> None:
    network, one, two = pair(C1, C2)
    three = network.add("three", C2)
    assert isinstance(three, ProfileNode)
    network.link("two", "three")
    for unit in (C2, ("a",)):
        two.set_leadership(unit, True)
    add(two, 1, "s.x", "/a", "drop-newest")
    add(two, 2, "s.y", "/a", "fail")
    add(three, 1, "s.x", "/a", "drop-newest")
    network.live(2)
    assert one.policies_by_query(C2) == {("s.x", "/a"): "drop-newest", ("s.y", "/a"): "fail"}
    three.set_policy(1, "drop-oldest")
    network.live(1)
    assert one.policies_by_query(C2) == {("s.x", "/a"): "block", ("s.y", "/a"): "fail"}
    assert two.policies_by_query("three") == {("s.x", "/a"): "drop-oldest"}
    three.remove_interest(1)
    network.live(1)
    assert one.policies_by_query(C2) == {("s.x", "/a"): "drop-newest", ("s.y", "/a"): "fail"}
    # Another leader's summary has the same policies.
    three.set_leadership(C2, True)
    network.live(1)
    two.set_leadership(C2, False)
    network.live(1)
    assert one.policies_by_query(C2) == {("s.x", "/a"): "drop-newest", ("s.y", "/a"): "fail"}
    for kind in ("summary", "summary-queue"):
        tables = one.tables.items(kind)
        assert [key.author for key, _ in tables if key.subject == "a.2"] == ["three"]


def queue_update(value: Value, number: int, kind: str = "profile-queue") -> Update:
    tables = ((kind, "x", CHANGED, (("id", value),)),)
    return Update("x", C1, C1, 1, number - 1, number, 0, tables, False)


INTEREST = Update(
    "x", C1, C1, 1, 0, 1, 0, (("profile", "x", REPLACED, (("id", (">", "/a", ())),)),), False
)


@pytest.mark.parametrize(
    "value",
    [
        *(5, "fail", ("fail",), ("fail", 5), ("fail", (("p",),)), (5, ())),
        *(("later-policy", ()), ("coalesce://a", ()), ("coalesce:/p:a", ()), ("fail", (), 1)),
    ],
)
def test_a_malformed_or_later_policy_blocks(value: Value) -> None:
    exchange, (added, *_) = given(INTEREST)
    assert isinstance(added, InterestAdded)
    tables = exchange._tables
    good = exchange.apply_effects(
        tables.receive_message("x", queue_update(("fail", ()), 2), 0.0), 0.0
    )
    assert [each for each in good if isinstance(each, QueuePoliciesChanged)] == [
        QueuePoliciesChanged("x", {added.id: FAIL})
    ]
    bad = exchange.apply_effects(tables.receive_message("x", queue_update(value, 3), 0.0), 0.0)
    assert [each for each in bad if isinstance(each, QueuePoliciesChanged)] == [
        QueuePoliciesChanged("x", {})
    ]


def test_policies_before_their_interest_count_when_it_comes() -> None:
    exchange, effects = given(queue_update(("fail", ()), 1))
    assert effects == []
    tables = ((("profile"), "x", CHANGED, (("id", (">", "/a", ())),)),)
    update = Update("x", C1, C1, 1, 1, 2, 0, tables, False)
    added, policies = exchange.apply_effects(
        exchange._tables.receive_message("x", update, 0.0), 0.0
    )
    assert isinstance(added, InterestAdded)
    assert policies == QueuePoliciesChanged("x", {added.id: FAIL})


def test_a_table_of_another_author_is_counted_and_ignored() -> None:
    tables = (("profile-queue", "y", CHANGED, (("id", ("fail", ())),)),)
    exchange, effects = given(Update("x", C1, C1, 1, 0, 1, 0, tables, False))
    assert effects == [] and exchange.bad_entries == 1


def test_a_node_ignores_tables_of_an_unknown_kind() -> None:
    """So do earlier versions with tables of policies."""
    exchange, effects = given(queue_update(("fail", ()), 1, kind="later-kind"))
    assert [type(each) for each in effects] == [TableChanged]
    assert exchange.bad_entries == 0


def test_policies_are_encoded_if_they_are_short() -> None:
    named = Coalesce("/p:a/@id", (("p", "urn:p"),))
    for policy in (DROP_OLDEST, FAIL, named):
        value = encode_policy(policy)
        assert value is not None and decode_policy(value) == policy
    assert encode_policy(BLOCK) is None
    assert encode_policy(Coalesce("/" + "a" * 500)) is None


def test_a_thousand_policies_of_the_longest_queries_fit_into_the_tables() -> None:
    exchange = made()
    named = Coalesce("/" + "a" * 150)
    assert encode_policy(named) is not None
    for number in range(1000):
        query = parse_query(f"/a/b{number} = '{'x' * (3400 + number % 100)}'")
        exchange.add_interest(number, StreamPattern.parse(">"), query, 0.0)
        exchange.set_policy(number, named, 0.0)
    assert len(settle(exchange)) == 1000
    (table,) = [table for _, table in exchange._tables.items("profile-queue")]
    assert len(table) == 1000


@pytest.mark.parametrize("seed", seeds(10, 1000))
def test_no_subscription_gets_a_lossier_policy_than_its_own(seed: int) -> None:
    chance = random.Random(seed)
    network = EventNetwork(seed)
    units = {"one": C1, "two": C1, "three": C2, "four": C2}
    nodes: dict[str, ProfileNode] = {}
    for name, unit in units.items():
        nodes[name] = node = network.node(network.add(name, unit).address.node)
        assert isinstance(node, ProfileNode)
    for pair_of in (("one", "two"), ("two", "three"), ("three", "four")):
        network.link(*pair_of)
    network.live(1)
    for name, unit in (("one", C1), ("four", C2)):
        nodes[name].set_leadership(unit, True)
    nodes["one"].set_leadership(("a",), True)
    names = ["drop-oldest", "fail", "block"] if seed % 3 else ["drop-oldest"]
    policies: dict[tuple[str, int], str] = {}
    for number in range(60):
        name = chance.choice(list(nodes))
        node = nodes[name]
        action = chance.random()
        if action < 0.5 or not node.keys:
            node.add_interest(number, chance.choice(PATTERNS), chance.choice(TEXTS))
            policies[name, number] = chance.choice(names)
            node.set_policy(number, policies[name, number])
        elif action < 0.8:
            known = chance.choice(list(node.keys))
            node.remove_interest(known)
            del policies[name, known]
        else:
            known = chance.choice(list(node.keys))
            policies[name, known] = chance.choice(names)
            node.set_policy(known, policies[name, known])
        if chance.random() < 0.3:
            network.live(chance.random())
    network.live(20)
    events = [Event("one", 1, stream, value, 0.0) for stream in STREAMS for value in VALUES]
    for node in nodes.values():
        for destination in {destination for destination, _ in node.interests}:
            _check_destination(node, destination, nodes, policies, events, seed)


def _check_destination(
    node: ProfileNode,
    destination: object,
    nodes: dict[str, ProfileNode],
    policies: dict[tuple[str, int], str],
    events: list[Event],
    seed: int,
) -> None:
    below = [
        (name, number, key.interest)
        for name, other in nodes.items()
        if destination in (name, other.address.unit)
        for number, key in other.keys.items()
    ]
    named = node.policies.get(destination, {})  # type: ignore[call-overload]
    for event in events:
        merged: IQueuePolicy | None = None
        for (other, id), interest in node.interests.items():
            if other == destination and matches(interest, event):
                policy = parse_queue_policy(named.get(id, "block"))
                merged = policy if merged is None else merge_policies(merged, policy)
        for name, number, interest in below:
            if matches(interest, event):
                assert merged is not None
                assert merged.text in ("block", policies[name, number]), f"seed {seed}"
    if len(below) <= MAX_QUERIES and {policies[each[:2]] for each in below} == {"drop-oldest"}:
        assert set(named.values()) == {"drop-oldest"}, f"seed {seed}"
