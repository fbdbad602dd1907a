"""The engine agrees with the reference on generated types, documents and queries (A18).

Documents have a few recurring shapes, so that most are recognised.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.event.envelope import Liveness
from broker.matching.contract import Accepted
from tests.matching.engine.engine_pair import EnginePair
from tests.matching.engine.random_query import NAMESPACES, QueryMaker
from tests.matching.shape.grammar import Grammar

SEEDS = st.integers(0, 2**32)
TEXTS = ("a", "291", "-1.5e3", "a b", "don't", "]]", " ", "é", "b", "c", "f", "x", "en", "a.b", "2")
RELAXED = settings(max_examples=12)


class Run:
    """One type with some document structures and some query templates."""

    def __init__(self, grammar_seed: int, seed: int) -> None:
        self.grammar = Grammar(grammar_seed)
        self.chance = random.Random(seed)
        self.engines = EnginePair(self.grammar.dtd)
        self.structures = [self.chance.randrange(2**32) for _ in range(3)]
        elements = [f"e{n}" if n != 3 else "q:e3" for n in range(len(self.grammar.models))]
        declared = {name for names in self.grammar.attributes for name in names} | {"id"}
        self._elements = elements
        self._attributes = sorted(name.replace("p:", "q:") for name in declared)

    def documents(self, count: int, *, raw: float = 0.05) -> list[bytes]:
        """Return documents of random structures."""
        return [
            self.grammar.document(
                self.chance.choice(self.structures),
                self.chance.randrange(2**32),
                raw=self.chance.random() < raw,
            )
            for _ in range(count)
        ]

    def query(self, template: int) -> str:
        """Return a query of the template."""
        structure, values = random.Random(template), random.Random(self.chance.randrange(2**32))
        return QueryMaker(self._elements, self._attributes, TEXTS, structure, values).query()

    def subscribe(self, templates: int, queries: int) -> list[int]:
        """Add several queries of each template, some of them equal."""
        numbers = []
        for _ in range(templates):
            template = self.chance.randrange(2**32)
            for _ in range(queries):
                pattern = self.chance.choice([">", ">", "a.>", "c"])
                numbers.append(self.engines.subscribe(self.query(template), pattern, NAMESPACES))
        return numbers


def batches(chance: random.Random, documents: list[bytes]) -> list[list[bytes]]:
    """Return the documents in batches of random sizes."""
    found, at = [], 0
    while at < len(documents):
        size = chance.choice([1, 1, 2, 5, 20])
        found.append(documents[at : at + size])
        at += size
    return found


def play(run: Run, *, templates: int, queries: int) -> None:
    numbers = run.subscribe(templates, queries)
    accepted: list[bytes] = []
    for batch in batches(run.chance, run.documents(80)):
        verdicts = run.engines.match(batch)
        accepted += [d for d, v in zip(batch, verdicts, strict=True) if isinstance(v, Accepted)]
    sample = accepted[:2] + accepted[-3:]
    for number in numbers:
        for liveness in Liveness:
            run.engines.select(number, sample, liveness)


@RELAXED
@given(SEEDS, SEEDS)
def test_few_queries_of_many_templates(grammar_seed: int, seed: int) -> None:
    play(Run(grammar_seed, seed), templates=25, queries=2)


@RELAXED
@given(SEEDS, SEEDS)
def test_many_queries_of_few_templates(grammar_seed: int, seed: int) -> None:
    """With so many queries the index matches parsed documents too."""
    play(Run(grammar_seed, seed), templates=3, queries=60)


@pytest.mark.parametrize("seed", range(2))
def test_most_documents_are_recognised_and_most_queries_decided(seed: int) -> None:
    """Without this, an engine that parses and evaluates everything would pass the tests above."""
    recognised = parsed = matched = undecided = 0
    for each in range(8 * seed, 8 * seed + 8):
        run = Run(each, each)
        run.subscribe(25, 2)
        for batch in batches(run.chance, run.documents(120, raw=0.0)):
            run.engines.match(batch)
        recognised += run.engines.count("recognised")
        parsed += run.engines.count("parsed")
        undecided += run.engines.count("undecided")
        matched += run.engines.matched
    assert recognised > parsed
    assert matched > 1_000
    assert undecided < 2 * recognised
