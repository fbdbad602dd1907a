from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.dtd.content_model import count_pairs
from broker.dtd.derivation.chain import infer_chain
from broker.dtd.derivation.child_sequences import MAX_CHILDREN, ChildSequences

WORDS = st.lists(st.text("abcdefg", max_size=8), min_size=1, max_size=15)


def chain_of(words: list[str], *, is_evidence_strong: bool = True) -> str:
    sequences = ChildSequences()
    for word in words:
        sequences.add(word)
    return infer_chain(sequences, is_evidence_strong=is_evidence_strong).write(str).replace(" ", "")


@pytest.mark.parametrize(
    ("words", "chain"),
    [
        (["abc"], "(a,b,c)"),
        (["abc", "ac"], "(a,b?,c)"),
        (["abbc", "abc"], "(a,b+,c)"),
        (["ab", "ba"], "(a|b)+"),
        (["ab", "ba", ""], "(a|b)*"),
        # Only ever one of them.
        (["axb", "ayb"], "(a,(x|y),b)"),
        (["axb", "ayb", "ab"], "(a,(x|y)?,b)"),
        (["xxb", "yb"], "((x|y)+,b)"),
        (["aa"], "(a+)"),
        # The paper's example 1.
        (["abccdeef", "bcaf", "ccade", "accbf"], "((a|b|c)+,d?,e*,f?)"),
        # In the order of their first occurrence, where no sample decides.
        (["za", "zc", "zca"], "(z,c?,a?)"),
    ],
)
def test_a_chain_is_inferred(words: list[str], chain: str) -> None:
    assert chain_of(words) == chain


@pytest.mark.parametrize(
    ("words", "chain"),
    [(["abc"], "(a?,b?,c?)"), (["abbc"], "(a?,b*,c?)"), (["axb", "ayb"], "(a?,(x|y)*,b?)")],
)
def test_weak_evidence_requires_nothing(words: list[str], chain: str) -> None:
    assert chain_of(words, is_evidence_strong=False) == chain


@given(WORDS, st.booleans())
def test_a_chain_is_deterministic_and_accepts_all_words(words: list[str], strong: bool) -> None:
    if not any(words):
        return
    chain = chain_of(words, is_evidence_strong=strong)
    count_pairs(chain)
    names = re.findall(r"\w", chain)
    assert sorted(names) == sorted(set("".join(words)))
    pattern = re.compile(chain.replace(",", ""))
    assert [word for word in words if not pattern.fullmatch(word)] == []


def test_children_past_the_bound_are_not_stored() -> None:
    sequences = ChildSequences()
    sequences.add(f"n{number}" for number in range(MAX_CHILDREN))
    assert not sequences.is_overfull
    sequences.add(["n1", "other", "n2"])
    assert sequences.is_overfull and len(sequences.names) == MAX_CHILDREN
