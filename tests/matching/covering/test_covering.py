"""Covering is sound by comparison with lxml, and finds the expected cases (F8)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from broker.matching.query.query import parse_query
from tests.matching.covering.generated_queries import TEXTS, covers, matches, query, trees


def _covers(wide: str, narrow: str) -> bool:
    return covers(parse_query(wide, {"p": "urn:p"}), parse_query(narrow, {"p": "urn:p"}))


@settings(max_examples=50)
@given(
    documents=st.lists(trees(), min_size=2, max_size=6),
    texts=st.lists(TEXTS, min_size=2, max_size=8, unique=True),
)
def test_a_covering_query_matches_all_covered_events(
    documents: list[str], texts: list[str]
) -> None:
    queries = [each for each in map(query, texts) if each is not None]
    roots = list(map(etree.fromstring, documents))
    found = {each: [matches(each, root) for root in roots] for each in queries}
    for wide in queries:
        assert covers(wide, wide)
        for narrow in queries:
            if covers(wide, narrow):
                for matched, also, document in zip(
                    found[narrow], found[wide], documents, strict=True
                ):
                    assert also or not matched, (wide.text, narrow.text, document)


@settings(max_examples=50)
@given(texts=st.lists(TEXTS, min_size=3, max_size=7, unique=True))
def test_covering_is_transitive(texts: list[str]) -> None:
    queries = [each for each in map(query, texts) if each is not None]
    for one in queries:
        for other in queries:
            for third in queries:
                if covers(one, other) and covers(other, third):
                    assert covers(one, third), (one.text, other.text, third.text)


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("true()", "//a"),
        ("//a", "false()"),
        ("//b", "/a/b"),
        ("/a/*", "/a/b[c]"),
        ("/a[b]", "/a/b/c"),
        ("/a//c", "/a/b[.//c = 3]"),
        ("//c", "/a[b/c]"),
        ("a", "/*/a"),
        ("//p:*", "//p:x/@y"),
        ("//x > 5", "//x > 7"),
        ("//x > 5", "/a/x = 7"),
        ("//x > 5", "/a/x = '7'"),
        ("//x >= 7", "//x = 7"),
        ("//x != 5", "//x > 5"),
        ("5 < //x", "/a[x > 7]"),
        ("/a[x > 5 and x < 9]", "/a[x > 6 and x < 8 and y]"),
        ("/a/@id[starts-with(., 'U')]", "/a[starts-with(@id, 'UA')]"),
        ("/a[starts-with(@id, 'U')]", "/a[@id = 'UAL1']"),
        ("//*[contains(., 'A')]", "//id[starts-with(., 'UAL')]"),
        ("//a", "contains(//a, 'x')"),
        ("//a or //b", "//b[2]"),
        ("//a", "//a[position() > 1][b]"),
        ("//a[1]", "/b/a[1]"),
        ("//a", "count(//a) > 3"),
        ("count(//a) > 1", "count(//a) >= 2"),
        ("not(//a = 5)", "not(//a)"),
        ("starts-with($StreamId, 'a')", "$StreamId = 'ab'"),
        ("$TimeStamp > 5", "$TimeStamp > 6 and //a"),
        ("/Mspaces:Event/*", "/Mspaces:Event/Mspaces:Summary"),
        ("//a[b = 1 or c]", "//a[c] | //a[b = '1']"),
        ("//a/descendant::b", "//a//c/b"),
    ],
)
def test_structural_covering_is_found(wide: str, narrow: str) -> None:
    assert _covers(wide, narrow)


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("/a/b", "//b"),
        ("/a[b][c]", "/a[b] and /a[c]"),
        ("//x > 7", "//x > 5"),
        ("//x = '5'", "//x = 5"),
        ("starts-with(//id, 'U')", "//id = 'UAL1'"),
        ("//a[1]/b", "//a/b"),
        ("(//a)[1]", "//b"),
        ("/Mspaces:Event", "//Mspaces:Event"),
        ("/a/x != 5", "not(/a/x = 5)"),
        ("//a", "not(//b)"),
        ("/a/@x", "/a/x"),
        ("//*", "//@x"),
        ("not(//a)", "not(//a = 5)"),
    ],
)
def test_a_query_that_only_looks_wider_does_not_cover(wide: str, narrow: str) -> None:
    assert not _covers(wide, narrow)
