"""Subscriptions by stream: which are selected for matching queries, in which order."""

from __future__ import annotations

from broker.event.stream import StreamPattern
from broker.matching.engine.distinct_query import DistinctQuery, QueriesOfMember
from broker.matching.engine.stream_patterns import StreamPatterns
from broker.matching.index.member import Member
from broker.matching.query.query import parse_query


def entry(*pairs: tuple[int, int]) -> DistinctQuery:
    made = DistinctQuery(parse_query("a"), (), (Member(()),))
    for number, pattern in pairs:
        made.add_subscription(number, pattern)
    return made


def member(found: DistinctQuery | QueriesOfMember) -> Member:
    return Member((), entry=found)


def held(streams: StreamPatterns, *patterns: str) -> list[int]:
    return [streams.acquire_pattern(StreamPattern.parse(pattern)) for pattern in patterns]


def test_only_subscriptions_to_the_stream_are_selected() -> None:
    streams = StreamPatterns()
    a, b, both = held(streams, "a.>", "b", ">")
    members = [member(entry((5, a))), member(entry((2, b))), member(entry((1, b), (3, both)))]
    assert streams.get_view("a.x", 0).subscriptions_of(members) == (3, 5)
    assert streams.get_view("b", 0).subscriptions_of(members) == (1, 2, 3)
    assert streams.get_view("c", 0).subscriptions_of(members[:2]) == ()


def test_unfiltered_subscriptions_are_included() -> None:
    streams = StreamPatterns()
    [every] = held(streams, ">")
    streams.add_unfiltered(4, every)
    view = streams.get_view("a", 0)
    assert view.subscriptions_of([member(entry((7, every))), member(entry((2, every)))]) == (
        2,
        4,
        7,
    )
    assert view.subscriptions_of([]) == view.unfiltered == (4,)


def test_a_query_that_matches_twice_selects_its_subscriptions_once() -> None:
    streams = StreamPatterns()
    [every] = held(streams, ">")
    one, other = entry((1, every)), entry((2, every), (3, every))
    shared = member(QueriesOfMember(one, other))
    view = streams.get_view("a", 0)
    assert view.subscriptions_of([shared, member(other), member(one), shared]) == (1, 2, 3)
    assert view.merge_subscriptions((2, 9), [other, one, other]) == (1, 2, 3, 9)


def test_changed_subscriptions_are_selected_at_once() -> None:
    streams = StreamPatterns()
    a, b = held(streams, "a", "b")
    query = entry()
    found = [member(query)]
    views = [streams.get_view("a", 0), streams.get_view("b", 0)]

    def wanted() -> list[tuple[int, ...]]:
        assert [bool(query.select_subscriptions(view.patterns)) for view in views] == [
            bool(v.subscriptions_of(found)) for v in views
        ]
        return [view.subscriptions_of(found) for view in views]

    assert wanted() == [(), ()]
    query.add_subscription(1, a)
    assert wanted() == [(1,), ()]
    query.add_subscription(2, b)
    query.add_subscription(3, b)
    assert wanted() == [(1,), (2, 3)]
    assert query.remove_subscription(2) == b
    assert wanted() == [(1,), (3,)]
    assert query.remove_subscription(1) == a
    assert wanted() == [(), (3,)]
    assert (query.subscriptions, query.pattern_of(3)) == ((3,), b)
    assert query.remove_subscription(3) == b
    assert wanted() == [(), ()]
