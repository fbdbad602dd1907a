"""What queries that match bring to a stream: whose subscriptions, in which order."""

from __future__ import annotations

from broker.event.stream import StreamPattern
from broker.matching.index.member import Member
from broker.matching.query.query import parse_query
from broker.matching.switching.entry import Entry, Several
from broker.matching.switching.streams import Streams


def entry(*pairs: tuple[int, int]) -> Entry:
    made = Entry(parse_query("a"), (), (Member(()),))
    for number, pattern in pairs:
        made.add(number, pattern)
    return made


def member(found: Entry | Several) -> Member:
    return Member((), entry=found)


def held(streams: Streams, *patterns: str) -> list[int]:
    return [streams.hold(StreamPattern.parse(pattern)) for pattern in patterns]


def test_only_subscriptions_of_the_stream_are_brought() -> None:
    streams = Streams()
    a, b, both = held(streams, "a.>", "b", ">")
    members = [member(entry((5, a))), member(entry((2, b))), member(entry((1, b), (3, both)))]
    assert streams.view("a.x").wanted(members) == (3, 5)
    assert streams.view("b").wanted(members) == (1, 2, 3)
    assert streams.view("c").wanted(members[:2]) == ()


def test_who_wants_everything_is_among_them() -> None:
    streams = Streams()
    [every] = held(streams, ">")
    streams.add_everything(4, every)
    view = streams.view("a")
    assert view.wanted([member(entry((7, every))), member(entry((2, every)))]) == (2, 4, 7)
    assert view.wanted([]) == view.everything == (4,)


def test_a_query_that_comes_twice_brings_its_subscriptions_once() -> None:
    streams = Streams()
    [every] = held(streams, ">")
    one, other = entry((1, every)), entry((2, every), (3, every))
    shared = member(Several(one, other))
    view = streams.view("a")
    assert view.wanted([shared, member(other), member(one), shared]) == (1, 2, 3)
    assert view.joined((2, 9), [other, one, other]) == (1, 2, 3, 9)


def test_subscriptions_that_come_and_go_are_told_at_once() -> None:
    streams = Streams()
    a, b = held(streams, "a", "b")
    query = entry()
    found = [member(query)]
    views = [streams.view("a"), streams.view("b")]

    def wanted() -> list[tuple[int, ...]]:
        assert [bool(query.brought(view.patterns)) for view in views] == [
            bool(v.wanted(found)) for v in views
        ]
        return [view.wanted(found) for view in views]

    assert wanted() == [(), ()]
    query.add(1, a)
    assert wanted() == [(1,), ()]
    query.add(2, b)
    query.add(3, b)
    assert wanted() == [(1,), (2, 3)]
    assert query.remove(2) == b
    assert wanted() == [(1,), (3,)]
    assert query.remove(1) == a
    assert wanted() == [(), (3,)]
    assert (query.numbers, query.pattern(3)) == ((3,), b)
    assert query.remove(3) == b
    assert wanted() == [(), ()]
