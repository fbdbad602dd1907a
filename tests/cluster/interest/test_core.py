from __future__ import annotations

import pytest

from broker.cluster.address import Address, UnitPath
from broker.cluster.interest.core import InterestExchange
from broker.cluster.interest.effects import (
    BadInterest,
    InterestActive,
    InterestAdded,
    InterestEffect,
)
from broker.cluster.messages import REPLACED, Digest, Update, Value
from broker.cluster.tables.core import Tables
from broker.event.stream import StreamPattern
from broker.matching.query.query import parse_query
from tests.cluster.interest.network import EventNetwork, ProfileNode

C1, C2 = ("a", "1"), ("a", "2")
ALL = StreamPattern.parse(">")


def made(unit: UnitPath = ()) -> InterestExchange:
    return InterestExchange(Tables(Address(unit, "me"), 1, lambda: [("me", 1, 7)]))


def settle(profiles: InterestExchange) -> list[InterestEffect]:
    effects: list[InterestEffect] = []
    while profiles.next_timeout() is not None:
        effects += profiles.handle_timeout(1.0)
    return effects


def pair(unit: UnitPath, other: UnitPath) -> tuple[EventNetwork, ProfileNode, ProfileNode]:
    network = EventNetwork(1)
    network.add("one", unit)
    network.add("two", other)
    network.link("one", "two")
    network.live(1)
    return network, network.node("one"), network.node("two")


def test_an_overlong_query_is_published_wider() -> None:
    network, one, two = pair(C1, C1)
    long = f"/a = '{'x' * 4000}'"
    two.add_interest(1, "s.x", long)
    two.add_interest(2, "s.y", "/a")
    network.live(1)
    assert sorted((w.pattern.text, w.query.text) for w in one.interests.values()) == [
        ("s.x", "true()"),
        ("s.y", "/a"),
    ]
    two.remove_interest(1)
    network.live(1)
    assert [interest.pattern.text for interest in one.interests.values()] == ["s.y"]


def test_a_thousand_of_the_longest_queries_fit_into_a_profile() -> None:
    profiles = made()
    for number in range(1000):
        filling = "x" * (3400 + number % 100)
        profiles.add_interest(number, ALL, parse_query(f"/a/b{number} = '{filling}'"), 0.0)
    assert len(settle(profiles)) == 1000
    assert not profiles.next_timeout()


def test_interest_of_a_single_node_is_active_at_once() -> None:
    profiles = made()
    assert profiles.add_interest(1, ALL, parse_query("/a"), 0.0) == []
    assert settle(profiles) == [InterestActive(1, {"me": (1, 7)})]
    assert profiles.add_interest(2, ALL, parse_query("/a[b]"), 0.0) == [InterestActive(2, {})]
    assert profiles.next_timeout() is None
    assert profiles.remove_interest(1, 0.0) == []
    # The covered interest is in the profile now, and stayed active.
    settle(profiles)
    assert profiles.add_interest(3, ALL, parse_query("/a[b]"), 0.0) == [InterestActive(3, {})]


def test_interest_of_a_single_leader_is_active_at_once() -> None:
    profiles = made(C1)
    for unit in (C1, ("a",), ()):
        profiles.set_leadership(unit, True, 0.0)
    profiles.add_interest(1, ALL, parse_query("/a"), 0.0)
    assert settle(profiles) == [InterestActive(1, {"me": (1, 7)})]


def test_interest_without_a_leader_is_not_active() -> None:
    profiles = made(C1)
    profiles.add_interest(1, ALL, parse_query("/a"), 0.0)
    assert settle(profiles) == []
    profiles.set_leadership(C1, True, 0.0)
    assert settle(profiles) == []
    profiles.set_leadership(("a",), True, 0.0)
    assert settle(profiles) == [InterestActive(1, {"me": (1, 7)})]


def test_removed_interest_does_not_become_active() -> None:
    profiles = made(C1)
    profiles.add_interest(1, ALL, parse_query("/a"), 0.0)
    profiles.add_interest(2, ALL, parse_query("/a"), 0.0)
    settle(profiles)
    profiles.remove_interest(1, 0.0)
    profiles.set_leadership(C1, True, 0.0)
    profiles.set_leadership(("a",), True, 0.0)
    assert [e.key for e in settle(profiles) if isinstance(e, InterestActive)] == [2]
    with pytest.raises(KeyError):
        profiles.remove_interest(1, 0.0)
    with pytest.raises(ValueError, match="already"):
        profiles.add_interest(2, ALL, parse_query("/b"), 0.0)
    with pytest.raises(ValueError, match="does not contain"):
        profiles.set_leadership(C2, True, 0.0)


def test_versions_over_the_limit_become_active_with_later_ones() -> None:
    profiles = made(C1)
    for number in range(200):
        profiles.add_interest(number, ALL, parse_query(f"/a/b = {number}"), 0.0)
        settle(profiles)
    assert len(profiles._own_profile.propagations) <= 64
    profiles.set_leadership(C1, True, 0.0)
    profiles.set_leadership(("a",), True, 0.0)
    flowing = [e.key for e in settle(profiles) if isinstance(e, InterestActive)]
    assert sorted(map(str, flowing)) == sorted(map(str, range(200)))


def test_a_far_unit_is_one_destination_for_all_its_leaders() -> None:
    network, one, two = pair(C1, C2)
    two.add_interest(1, ">", "/a")
    two.set_leadership(C2, True)
    two.set_leadership(("a",), True)
    network.live(1)
    assert list(one.interests) == [(C2, next(iter(one.interests))[1])]
    assert two.keys[1].flowing is not None
    assert set(two.keys[1].flowing.cuts) == {"one", "two"}
    two.remove_interest(1)
    network.live(1)
    assert not one.interests


def test_a_profile_stays_in_its_cluster() -> None:
    network, one, two = pair(C1, C2)
    two.add_interest(1, ">", "/a")
    network.live(1)
    assert not one.interests, "a profile is for the own cluster"


def bad_update(value: Value, **fields: str) -> Update:
    names = {"kind": "profile", "subject": "x", **fields}
    tables = ((names["kind"], names["subject"], REPLACED, (("id", value),)),)
    return Update("x", C1, C1, 1, 0, 1, 0, tables, False)


def given(update: Update) -> tuple[InterestExchange, list[InterestEffect]]:
    profiles = made(C1)
    tables = profiles._tables
    tables.add_neighbour("x", C1, 0.0)
    tables.receive_message("x", Digest((), True, False), 0.0)
    return profiles, profiles.apply_effects(tables.receive_message("x", update, 0.0), 0.0)


@pytest.mark.parametrize(
    ("value", "pattern", "query"),
    [
        (("s.x", "/a[", ()), "s.x", "true()"),
        (("s.x", "/p:a", ()), "s.x", "true()"),
        (("s.x", "/a" * 10_000, ()), "s.x", "true()"),
        (("s..x", "/a", ()), ">", "true()"),
        (("s.x", 5, ()), ">", "true()"),
        (("s.x", "/a"), ">", "true()"),
        (("s.x", "/a", (("p",),)), ">", "true()"),
        (5, ">", "true()"),
        ("abc", ">", "true()"),
    ],
)
def test_malformed_interest_is_widened_counted_and_reported(
    value: Value, pattern: str, query: str
) -> None:
    profiles, effects = given(bad_update(value))
    bad, added = (e for e in effects if isinstance(e, BadInterest | InterestAdded))
    assert isinstance(bad, BadInterest) and (bad.author, bad.entry) == ("x", "id")
    assert isinstance(added, InterestAdded) and added.destination == "x"
    assert (added.interest.pattern.text, added.interest.query.text) == (pattern, query)
    assert profiles.bad_entries == 1


@pytest.mark.parametrize(
    ("kind", "subject"),
    [
        ("profile", "y"),
        ("summary", "a.1"),
        ("summary", "b"),
        ("summary", "no name"),
        ("summary", "a.1.x.y"),
    ],
)
def test_a_table_with_a_wrong_author_is_counted_and_ignored(kind: str, subject: str) -> None:
    profiles, effects = given(bad_update((">", "/a", ()), kind=kind, subject=subject))
    assert effects == []
    assert profiles.bad_entries == 1


def test_garbage_in_a_flowing_table_activates_no_interest() -> None:
    profiles, _ = given(bad_update((">", "/a", ())))
    profiles.add_interest(1, ALL, parse_query("/a"), 0.0)
    settle(profiles)
    entries: tuple[tuple[str, Value | None], ...] = (
        ("me", ("1", 2)),
        ("", ((1, 2), 5, ("o", "x", 1))),
        ("#", "latest"),
    )
    garbage = Update("x", C1, C1, 1, 1, 2, 0, (("flowing", "a.1", REPLACED, entries),), False)
    effects = profiles.apply_effects(profiles._tables.receive_message("x", garbage, 0.0), 0.0)
    assert not [e for e in effects if isinstance(e, InterestActive)]


def test_a_dead_node_is_finally_removed_as_a_destination() -> None:
    network, one, two = pair(C1, C1)
    two.add_interest(1, "s.x", "/a")
    network.live(1)
    assert [key[0] for key in one.interests] == ["two"]
    network.cut("one", "two")
    network.live(30)
    assert one.interests, "it may come back"
    network.live(15)
    assert not one.interests


def test_a_new_process_does_not_inherit_interest() -> None:
    network, one, two = pair(C1, C1)
    two.add_interest(1, "s.x", "/a")
    two.add_interest(2, "s.y", "/a")
    network.live(1)
    network.restart("two")
    network.node("two").add_interest(1, "s.x", "/a")
    network.live(1)
    assert [interest.pattern.text for interest in one.interests.values()] == ["s.x"]


def test_a_leader_can_die_without_effect_on_active_or_new_interest() -> None:
    network = EventNetwork(4)
    for name, unit in (("l1", C1), ("l2", C1), ("m", C1), ("far", C2)):
        network.add(name, unit)
    for one, other in (("l1", "m"), ("l2", "m"), ("m", "far"), ("l1", "far")):
        network.link(one, other)
    network.node("far").set_leadership(C2, True)
    network.node("l1").set_leadership(C1, True)
    network.node("far").set_leadership(("a",), True)
    network.live(1)
    network.node("m").add_interest(1, ">", "/a")
    network.live(5)
    far, member = network.node("far"), network.node("m")
    assert member.keys[1].flowing and far.interests
    member.add_interest(2, ">", "/b")
    for peer in ("m", "far"):
        network.cut("l1", peer)
    network.live(3)
    network.node("l2").set_leadership(C1, True)
    for _ in range(60):
        network.live(1)
        assert {interest.query.text for interest in far.interests.values()} >= {"/a"}
    assert member.keys[2].flowing
    assert {interest.query.text for interest in far.interests.values()} == {"/a", "/b"}
