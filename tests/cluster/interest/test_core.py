"""Single rules of profiles: what flows when, what is wrong and made wider, and restarts."""

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
    return InterestExchange(Tables(Address(unit, "me"), 1, lambda: ("me", 1, 7)))


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


def test_a_query_that_is_too_long_to_tell_is_told_as_a_wider_one() -> None:
    network, one, two = pair(C1, C1)
    long = f"/a = '{'x' * 4000}'"
    two.want(1, "s.x", long)
    two.want(2, "s.y", "/a")
    network.live(1)
    assert sorted((w.pattern.text, w.query.text) for w in one.wanted.values()) == [
        ("s.x", "true()"),
        ("s.y", "/a"),
    ]
    two.unwant(1)
    network.live(1)
    assert [want.pattern.text for want in one.wanted.values()] == ["s.y"]


def test_a_thousand_of_the_longest_wants_fit_into_a_profile() -> None:
    profiles = made()
    for number in range(1000):
        filling = "x" * (3400 + number % 100)
        profiles.add_interest(number, ALL, parse_query(f"/a/b{number} = '{filling}'"), 0.0)
    assert len(settle(profiles)) == 1000
    assert not profiles.next_timeout()


def test_in_a_node_alone_everything_flows_at_once() -> None:
    profiles = made()
    assert profiles.add_interest(1, ALL, parse_query("/a"), 0.0) == []
    assert settle(profiles) == [InterestActive(1, {"me": (1, 7)})]
    assert profiles.add_interest(2, ALL, parse_query("/a[b]"), 0.0) == [InterestActive(2, {})]
    assert profiles.next_timeout() is None
    assert profiles.remove_interest(1, 0.0) == []
    # What was covered is in the profile now, and went on flowing.
    settle(profiles)
    assert profiles.add_interest(3, ALL, parse_query("/a[b]"), 0.0) == [InterestActive(3, {})]


def test_who_leads_all_its_units_and_is_alone_flows_at_once_too() -> None:
    profiles = made(C1)
    for unit in (C1, ("a",), ()):
        profiles.set_leadership(unit, True, 0.0)
    profiles.add_interest(1, ALL, parse_query("/a"), 0.0)
    assert settle(profiles) == [InterestActive(1, {"me": (1, 7)})]


def test_without_a_leader_a_want_is_subscribed_and_not_yet_flowing() -> None:
    profiles = made(C1)
    profiles.add_interest(1, ALL, parse_query("/a"), 0.0)
    assert settle(profiles) == []
    profiles.set_leadership(C1, True, 0.0)
    assert settle(profiles) == []
    profiles.set_leadership(("a",), True, 0.0)
    assert settle(profiles) == [InterestActive(1, {"me": (1, 7)})]


def test_a_key_that_is_no_longer_wanted_does_not_come_to_flow() -> None:
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


def test_more_versions_under_way_than_are_followed_flow_with_later_ones() -> None:
    profiles = made(C1)
    for number in range(200):
        profiles.add_interest(number, ALL, parse_query(f"/a/b = {number}"), 0.0)
        settle(profiles)
    assert len(profiles._own_profile.propagations) <= 64
    profiles.set_leadership(C1, True, 0.0)
    profiles.set_leadership(("a",), True, 0.0)
    flowing = [e.key for e in settle(profiles) if isinstance(e, InterestActive)]
    assert sorted(map(str, flowing)) == sorted(map(str, range(200)))


def test_a_far_unit_is_one_destination_whoever_sums_it_up() -> None:
    network, one, two = pair(C1, C2)
    two.want(1, ">", "/a")
    two.lead(C2, True)
    two.lead(("a",), True)
    network.live(1)
    assert list(one.wanted) == [(C2, next(iter(one.wanted))[1])]
    assert two.keys[1].flowing is not None
    assert set(two.keys[1].flowing.cuts) == {"one", "two"}
    two.unwant(1)
    network.live(1)
    assert not one.wanted


def test_what_nobody_else_may_know_stays_in_the_cluster() -> None:
    network, one, two = pair(C1, C2)
    two.want(1, ">", "/a")
    network.live(1)
    assert not one.wanted, "a profile is for the own cluster"


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
def test_a_bad_want_is_made_wider_counted_and_told(value: Value, pattern: str, query: str) -> None:
    profiles, effects = given(bad_update(value))
    told, wanted = (e for e in effects if isinstance(e, BadInterest | InterestAdded))
    assert isinstance(told, BadInterest) and (told.author, told.entry) == ("x", "id")
    assert isinstance(wanted, InterestAdded) and wanted.destination == "x"
    assert (wanted.interest.pattern.text, wanted.interest.query.text) == (pattern, query)
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
def test_a_table_that_is_not_its_authors_to_write_is_counted_and_passed_over(
    kind: str, subject: str
) -> None:
    profiles, effects = given(bad_update((">", "/a", ()), kind=kind, subject=subject))
    assert effects == []
    assert profiles.bad_entries == 1


def test_garbage_in_a_flowing_table_lets_nothing_flow() -> None:
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


def test_a_node_that_ends_is_no_destination_any_more() -> None:
    network, one, two = pair(C1, C1)
    two.want(1, "s.x", "/a")
    network.live(1)
    assert [key[0] for key in one.wanted] == ["two"]
    network.cut("one", "two")
    network.live(30)
    assert one.wanted, "it may come back"
    network.live(15)
    assert not one.wanted


def test_a_new_process_wants_nothing_of_what_the_old_one_wanted() -> None:
    network, one, two = pair(C1, C1)
    two.want(1, "s.x", "/a")
    two.want(2, "s.y", "/a")
    network.live(1)
    network.restart("two")
    network.node("two").want(1, "s.x", "/a")
    network.live(1)
    assert [want.pattern.text for want in one.wanted.values()] == ["s.x"]


def test_the_death_of_a_leader_neither_stops_what_flows_nor_what_comes() -> None:
    network = EventNetwork(4)
    for name, unit in (("l1", C1), ("l2", C1), ("m", C1), ("far", C2)):
        network.add(name, unit)
    for one, other in (("l1", "m"), ("l2", "m"), ("m", "far"), ("l1", "far")):
        network.link(one, other)
    network.node("far").lead(C2, True)
    network.node("l1").lead(C1, True)
    network.node("far").lead(("a",), True)
    network.live(1)
    network.node("m").want(1, ">", "/a")
    network.live(5)
    far, member = network.node("far"), network.node("m")
    assert member.keys[1].flowing and far.wanted
    member.want(2, ">", "/b")
    for peer in ("m", "far"):
        network.cut("l1", peer)
    network.live(3)
    network.node("l2").lead(C1, True)
    for _ in range(60):
        network.live(1)
        assert {want.query.text for want in far.wanted.values()} >= {"/a"}
    assert member.keys[2].flowing
    assert {want.query.text for want in far.wanted.values()} == {"/a", "/b"}
