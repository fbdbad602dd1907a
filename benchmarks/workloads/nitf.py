"""Queries on NITF, as in published measurements of XML filters (YFilter).

Distinct random walks down the DTD of at most 6 levels, with `//`, `*` and predicates on an
attribute or text. Paths without values match many documents.
"""

from __future__ import annotations

import random
from typing import Final

from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.workloads.nitf_documents import VALUES
from benchmarks.workloads.nitf_grammar import ROOT, Element, Grammar

LEVELS: Final = 6
WILDCARD: Final = 0.2
DESCENDANT: Final = 0.2
PREDICATE: Final = 0.2
_PATIENCE: Final = 10_000


def nitf_queries(grammar: Grammar, count: int, seed: int = 1) -> list[str]:
    """Return the same queries for a seed. Raises `BenchmarkFailed` if there are fewer."""
    chance = random.Random(f"nitf {seed}")
    found: dict[str, None] = {}
    while len(found) < count:
        # Otherwise paths without a predicate, which are fewer, would become rare.
        with_predicate = chance.random() < PREDICATE
        for _ in range(_PATIENCE):
            text = _walk(grammar, chance, with_predicate)
            if text not in found:
                break
        else:
            raise BenchmarkFailed(f"NITF has no more than {len(found)} such queries")
        found[text] = None
    return list(found)


def _walk(grammar: Grammar, chance: random.Random, with_predicate: bool) -> str:
    element = grammar.elements[ROOT]
    walked = [element]
    for _ in range(chance.randint(2, LEVELS) - 1):
        if not element.children:
            break
        element = grammar.elements[chance.choice(element.children)]
        walked.append(element)
    steps = [
        ("//" if chance.random() < DESCENDANT else "/")
        + ("*" if chance.random() < WILDCARD else each.name)
        for each in walked
    ]
    if with_predicate:
        index = chance.randrange(len(steps))
        steps[index] += _predicate(walked[index], chance)
    return "".join(steps)


def _predicate(element: Element, chance: random.Random) -> str:
    value = chance.randrange(VALUES)
    plain = [each.name for each in element.attributes if each.kind in ("cdata", "nmtoken")]
    if plain and chance.random() < 0.8:
        return f'[@{chance.choice(plain)} {chance.choice(("=", "=", ">"))} "{value}"]'
    return f'[contains(text(), " {value}")]'
