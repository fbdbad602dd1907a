"""Recognised documents are those that the reference engine accepts, with the parser's values."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.matching.shape.bounds import ShapeBounds
from tests.matching.shape.grammar import Grammar
from tests.matching.shape.mutations import mutate
from tests.matching.shape.oracle import CheckedCache

SEEDS = st.integers(0, 2**32)
BOUNDS = ShapeBounds(max_variants=3)
RELAXED = settings(max_examples=60)


@RELAXED
@given(SEEDS, SEEDS)
def test_random_documents_are_recognised_correctly(grammar_seed: int, seed: int) -> None:
    grammar, chance = Grammar(grammar_seed), random.Random(seed)
    checked = CheckedCache(grammar.dtd, bounds=BOUNDS)
    structures = [chance.randrange(2**32) for _ in range(3)]
    for _ in range(40):
        raw = chance.random() < 0.3
        checked.meet(grammar.document(chance.choice(structures), chance.randrange(2**32), raw=raw))


@RELAXED
@given(SEEDS, SEEDS)
def test_changed_documents_are_recognised_only_if_they_are_valid(
    grammar_seed: int, seed: int
) -> None:
    grammar, chance = Grammar(grammar_seed), random.Random(seed)
    checked = CheckedCache(grammar.dtd, bounds=BOUNDS)
    structure = chance.randrange(2**32)
    documents = [grammar.document(structure, chance.randrange(2**32)) for _ in range(12)]
    for document in documents:
        checked.meet(document)
    for document in documents:
        for _ in range(8):
            checked.meet(mutate(chance, document, documents))


def test_most_generated_documents_are_recognised() -> None:
    """Without this, an empty cache would pass the tests above."""
    recognised = accepted = 0
    for seed in range(40):
        grammar, chance = Grammar(seed), random.Random(seed)
        checked = CheckedCache(grammar.dtd, bounds=BOUNDS)
        structures = [chance.randrange(2**32) for _ in range(2)]
        for _ in range(60):
            checked.meet(grammar.document(chance.choice(structures), chance.randrange(2**32)))
        recognised += checked.recognised
        accepted += checked.accepted
    assert accepted > 1_000
    assert recognised > 0.6 * accepted
