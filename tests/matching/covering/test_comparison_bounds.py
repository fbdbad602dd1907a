"""The cheap tests exclude no pair of queries that cover each other."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.event.stream import StreamPattern
from broker.matching.covering.cover_forest import CoverForest
from broker.matching.covering.feature import (
    bounds_may_follow,
    offered_bounds,
    required_bounds,
)
from broker.matching.covering.formula import FALSE, Formula
from broker.matching.covering.implication import implies
from broker.matching.covering.normal_form import normalise_query
from broker.matching.covering.stream_interest import CoverNode, StreamInterest
from broker.matching.query.query import Query, parse_query
from tests.matching.covering.generated_queries import TEXTS, covers, query

EVERYWHERE = StreamPattern.parse(">")


@settings(max_examples=50)
@given(texts=st.lists(TEXTS, min_size=2, max_size=12, unique=True))
def test_no_covering_pair_is_excluded(texts: list[str]) -> None:
    queries = [each for each in map(query, texts) if each is not None]
    # All queries cover one that matches nothing, which is not searched for.
    nodes = [
        CoverNode(StreamInterest(EVERYWHERE, each))
        for each in queries
        if normalise_query(each) != FALSE
    ]
    for wide in nodes:
        for narrow in nodes:
            assert wide.covers(narrow) == covers(wide.interest.query, narrow.interest.query)


def parsed(text: str) -> Query:
    return parse_query(text)


@pytest.mark.parametrize(
    ("wide", "narrow", "may"),
    [
        ("/a[b > 5]", "/a[b > 6 and c > 1]", True),
        ("/a[b > 5]", "/a[b > 4 and c > 9]", False),
        ("/a[* > 5]", "/a[b > 4 and c > 9]", True),
        ("/a[b < 5]", "/a[b = 4]", True),
        ("/a[b < 5]", "/a[b = '4']", True),
        ("/a[b < 5]", "/a[b != 4]", False),
        ("/a[number(b) < 5]", "/a[b < 4]", False),
        ("/a[b[. < 5]/c > 1]", "/a[b[. < 4]/c > 2]", True),
        ("/a[b[. < 5]/c > 1]", "/a[b[. < 4]/c > 0]", False),
        ("/a", "/a[b < 4]", True),
        ("/a[not(b > 5)]", "/a[not(b > 6)]", True),
    ],
)
def test_bounds_are_compared_by_the_name_of_their_node(wide: str, narrow: str, may: bool) -> None:
    offered = offered_bounds(normalise_query(parsed(narrow)))
    assert bounds_may_follow(offered, required_bounds(normalise_query(parsed(wide)))) == may


def test_the_tightest_bound_is_required_and_offered() -> None:
    form = normalise_query(parsed("/a[b > 5][b > 7][c = 3 or c = 9]"))
    assert required_bounds(form) == {("b", "."): (7.0, math.inf)}
    offered = offered_bounds(form)
    assert offered["b", "."] == (7.0, math.inf)
    # A bound may follow from either of the two.
    assert offered["c", "."] == (9.0, 3.0)
    assert offered[None, "."] == (9.0, 3.0)


def test_few_pairs_of_many_boxes_need_the_full_test(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bool] = []

    def counted(one: Formula, other: Formula) -> bool:
        compared.append(implies(one, other))
        return compared[-1]

    monkeypatch.setattr("broker.matching.covering.stream_interest.implies", counted)
    chance = Random(1)
    forest = CoverForest()
    for _ in range(300):
        (a, c), (b, d) = ([chance.randrange(600) for _ in range(2)] for _ in range(2))
        box = (
            f"flightleg/altitude[. > {a} and . < {a + 20}] and /flight/speed[. > {b}][. < {b + 9}]"
        )
        forest.add(
            StreamInterest(EVERYWHERE, parsed(f"/flight[{box} and {c} < weight and weight < {d}]"))
        )
    assert len(forest.roots) > 250
    assert len(compared) < 300
