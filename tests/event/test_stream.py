from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import BadName
from broker.event.stream import StreamPattern, check_client_id, check_stream_name

TOKENS = st.sampled_from(["a", "b", "asdi"])
NAMES = st.lists(TOKENS, min_size=1, max_size=4).map(".".join)
PATTERNS = st.tuples(
    st.lists(st.one_of(TOKENS, st.just("*")), min_size=0, max_size=3), st.booleans()
).map(lambda p: ".".join([*p[0], *([">"] if p[1] or not p[0] else [])]))


@pytest.mark.parametrize(
    "name", ["", ".", "a.", ".a", "a..b", "../etc", "a/b", "a b", "a\0", "*", ">", "é", "a" * 65]
)
def test_a_name_that_could_climb_out_of_a_folder_is_refused(name: str) -> None:
    with pytest.raises(BadName):
        check_stream_name(name)


def test_a_name_of_seventeen_tokens_is_refused() -> None:
    assert check_stream_name(".".join("a" * 16))
    with pytest.raises(BadName, match="17 tokens"):
        check_stream_name(".".join("a" * 17))


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("asdi.*.kzbw", "asdi.tz.kzbw", True),
        ("asdi.*.kzbw", "asdi.tz.x.kzbw", False),
        ("asdi.>", "asdi.tz.kzbw", True),
        ("asdi.>", "asdi", False),
        (">", "anything.at.all", True),
        ("*", "one", True),
        ("*", "one.two", False),
        ("a.b", "a.b", True),
    ],
)
def test_wildcards_match_whole_tokens(pattern: str, name: str, matches: bool) -> None:
    assert StreamPattern.parse(pattern).matches(name) is matches


@pytest.mark.parametrize("text", ["", "a.>.b", "a.**", "a.b*", ">.a", "a..>"])
def test_a_malformed_pattern_is_refused(text: str) -> None:
    with pytest.raises(BadName):
        StreamPattern.parse(text)


@given(PATTERNS, PATTERNS)
def test_covering_and_overlap_agree_with_matching_on_every_name(wide: str, narrow: str) -> None:
    first, second = StreamPattern.parse(wide), StreamPattern.parse(narrow)
    # "z" stands for other tokens.
    names = [
        ".".join(tokens)
        for length in range(1, 6)
        for tokens in itertools.product(("a", "b", "asdi", "z"), repeat=length)
    ]
    subset = all(first.matches(name) for name in names if second.matches(name))
    assert first.covers(second) is subset
    assert first.overlaps(second) is any(first.matches(n) and second.matches(n) for n in names)


@pytest.mark.parametrize("client_id", ["", "-a", "a b", "a/b", "a" * 65, "a\n"])
def test_a_client_id_outside_the_grammar_is_refused(client_id: str) -> None:
    with pytest.raises(BadName):
        check_client_id(client_id)
