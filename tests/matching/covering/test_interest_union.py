"""The announced interest is minimal and independent of its history (D12, F8, T9, A19)."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from broker.event.stream import StreamPattern
from broker.matching.covering.interest_union import InterestDelta, InterestUnion
from broker.matching.covering.stream_interest import StreamInterest
from broker.matching.query.query import parse_query
from tests.matching.covering.generated_queries import TEXTS, matches, query, trees
from tests.seeds import seeds

ALL = StreamPattern.parse(">")
PATTERNS = list(map(StreamPattern.parse, ["a.b", "a.*", "a.>", "a.c", ">", "*.b"]))


def _add(
    union: InterestUnion, text: str, key: str | None = None, pattern: StreamPattern = ALL
) -> InterestDelta:
    return union.add(key or text, pattern, parse_query(text))


def _texts(union: InterestUnion) -> set[str]:
    return {want.query.text for want in union.announced}


def _check_delta(
    before: frozenset[StreamInterest], delta: InterestDelta, after: frozenset[StreamInterest]
) -> None:
    assert not before & set(delta.announce) and set(delta.withdraw) <= before
    assert before | set(delta.announce) - set(delta.withdraw) >= after
    assert (before | set(delta.announce)) - set(delta.withdraw) == after


@settings(max_examples=40)
@given(
    texts=st.lists(TEXTS, min_size=2, max_size=9, unique=True),
    most=st.sampled_from([1, 2, 3, 100, 100]),
    chance=st.randoms(use_true_random=False),
    documents=st.lists(trees(), min_size=1, max_size=4),
)
def test_the_union_is_complete_and_independent_of_its_history(
    texts: list[str], most: int, chance: random.Random, documents: list[str]
) -> None:
    wanted = [
        StreamInterest(chance.choice(PATTERNS), each)
        for each in map(query, texts)
        if each is not None
    ]
    union, present = InterestUnion(most), set[StreamInterest]()
    for _ in range(3 * len(wanted)):
        want = chance.choice(wanted)
        before = union.announced
        if want in present:
            present.remove(want)
            delta = union.remove(want)
        else:
            present.add(want)
            delta = union.add(want, want.pattern, want.query)
        _check_delta(before, delta, union.announced)
        fresh = InterestUnion(most)
        for each in chance.sample(sorted(present, key=lambda w: w.rank), len(present)):
            fresh.add(each, each.pattern, each.query)
        assert fresh.announced == union.announced
        assert len(union.announced) <= most
    for root in map(etree.fromstring, documents):
        for want in present:
            if matches(want.query, root):
                assert any(
                    sent.pattern.covers(want.pattern) and matches(sent.query, root)
                    for sent in union.announced
                ), (want, union.announced)


def test_covered_queries_are_announced_when_the_covering_one_is_removed() -> None:
    union = InterestUnion()
    for text in ("//x > 7", "//x > 9", "//y"):
        _add(union, text)
    assert _texts(union) == {"//x > 7", "//y"}
    delta = _add(union, "//x")
    assert [w.query.text for w in delta.announce] == ["//x"]
    assert [w.query.text for w in delta.withdraw] == ["//x > 7"]
    delta = union.remove("//x")
    assert [w.query.text for w in delta.announce] == ["//x > 7"]
    assert _texts(union) == {"//x > 7", "//y"}
    union.remove("//x > 7")
    assert _texts(union) == {"//x > 9", "//y"}


def test_a_query_of_two_links_is_announced_once_until_both_are_removed() -> None:
    union = InterestUnion()
    assert len(_add(union, "//x", "one").announce) == 1
    assert _add(union, "//x", "two") == InterestDelta()
    assert union.remove("one") == InterestDelta() and _texts(union) == {"//x"}
    assert len(union.remove("two").withdraw) == 1 and not union.announced


def test_the_smallest_of_equivalent_queries_is_announced() -> None:
    texts = ["/a/b[c]", "/a/b[./c]", "/a/b[c][c]", "/a[b]/b[c] "]
    for order in (texts, texts[::-1]):
        union = InterestUnion()
        for text in order:
            _add(union, text)
        assert _texts(union) == {min(texts)}
        union.remove(min(texts))
        assert _texts(union) == {sorted(texts)[1]}


#: Many are equivalent or cover each other.
RELATED = (
    "/a/b[c]|/a/b[./c]|/a/b[c][c]|/a[b]/b[c]|/a|/a[b]|//b|/a/b[c=1]|/a/b[c='1']|/a/b[1=c]|/a/b/c=1"
    "|/a/b/c>0|//c > -1|//c|/a/b or /c|/c or /a/b|true()|/a/b[c][1]|count(/a)>0|boolean(/a)"
    "|/a/b/c!=5|/a/b[not(d)]|/a/b[not(d)][c]|/a/b[not(d and e)]|not(//c)|not(/a/b/c)"
).split("|")


@pytest.mark.parametrize("seed", seeds(1, 12))
def test_related_queries_leave_the_union_independent_of_history(seed: int) -> None:
    chance = random.Random(seed)
    most = chance.choice([2, 4, 100])
    union, present = InterestUnion(most), set[str]()
    for _ in range(80):
        text = chance.choice(RELATED)
        if text in present:
            union.remove(text)
        else:
            _add(union, text)
        present ^= {text}
        fresh = InterestUnion(most)
        for each in chance.sample(sorted(present), len(present)):
            _add(fresh, each)
        assert fresh.announced == union.announced


def test_the_stream_pattern_is_part_of_covering() -> None:
    union = InterestUnion()
    _add(union, "//x", "narrow", StreamPattern.parse("a.b"))
    _add(union, "//x > 5", "other", StreamPattern.parse("a.c"))
    _add(union, "//x", "wide", StreamPattern.parse("a.*"))
    assert [want.pattern.text for want in union.announced] == ["a.*"]


def test_a_query_that_never_matches_is_not_announced() -> None:
    union = InterestUnion()
    assert _add(union, "//x[false()]") == InterestDelta() and union.announced == frozenset()
    assert union.remove("//x[false()]") == InterestDelta()


def test_duplicate_and_unknown_keys_are_refused() -> None:
    union = InterestUnion()
    _add(union, "//x", "key")
    with pytest.raises(ValueError, match="already"):
        _add(union, "//y", "key")
    with pytest.raises(KeyError):
        union.remove("other")
    with pytest.raises(ValueError, match="1 or more"):
        InterestUnion(0)


@pytest.mark.parametrize(
    ("texts", "widened"),
    [
        (["/f/id = 'UAL1'", "/f/id = 'UAL2'", "//z"], {'/f/id[starts-with(., "UAL")]', "//z"}),
        (["/f/id = 'UAL1'", "/f/id = 'KLM2'", "//z"], {"/f/id", "//z"}),
        (
            ["/f/a > 5 and /f/a < 7", "/f/a > 6 and /f/a < 9", "//z"],
            {"(/f/a[. < 9.0] and /f/a[. > 5.0])", "//z"},
        ),
        (["/f[b = 1]/a", "/f[b = 4]/a", "//z"], {"/f[b[. <= 4.0][. >= 1.0]]/a", "//z"}),
        (["/f[last()]/a", "/f[2]/a", "//z"], {"/f/a", "//z"}),
        (["//x > 5", "//x = '5'", "//y", "//z = normalize-space('q ')"], {"true()"}),
        (["$StreamId = 'ab'", "$StreamId = 'ac'", "//z"], {'starts-with($StreamId, "a")', "//z"}),
    ],
)
def test_too_many_queries_are_widened_as_little_as_possible(
    texts: list[str], widened: set[str]
) -> None:
    union = InterestUnion(2)
    for text in texts:
        _add(union, text)
    assert union._widened is not None
    assert _texts(union) == widened
    for text in texts[2:]:
        union.remove(text)
    assert union._widened is None and _texts(union) <= set(texts)


def test_widened_queries_return_to_their_original_form() -> None:
    union = InterestUnion(100)
    for number in range(100):
        _add(union, f"/f/id = 'UAL{number:03}'")
    before = union.announced
    for number in range(50):
        delta = _add(union, f"/f/n{number} > {number}")
        assert len(union.announced) <= 100 and union._widened is not None
        assert (number == 0) == (len(delta.withdraw) == 100)
    assert '/f/id[starts-with(., "UAL0")]' in _texts(union)
    for number in range(50):
        union.remove(f"/f/n{number} > {number}")
    assert union.announced == before
