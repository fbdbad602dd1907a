"""Requirements of a query: patterns that must occur, as a small disjunction of conjunctions."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from broker.matching.paths.pattern import Pattern

#: Limit of alternatives. Beyond it, a conjunction drops its longer side, and a disjunction requires
#: nothing.
MAX_ALTERNATIVES = 64
#: Patterns of one alternative; the likely rarest are kept.
MAX_CONJUNCTS = 4

Alternative: TypeAlias = frozenset[Pattern]


@attrs.frozen(slots=True)
class Requirements:
    """A document can match only if all patterns of one alternative occur in it.

    Without alternatives it can not match; an empty alternative requires nothing. `exact`: it
    matches if and only if they occur.
    """

    alternatives: frozenset[Alternative]
    exact: bool

    def inexact(self) -> Requirements:
        return attrs.evolve(self, exact=False)

    def __str__(self) -> str:
        lines = (" and ".join(sorted(map(str, each))) or "anything" for each in self.alternatives)
        return " or ".join(sorted(lines)) or "nothing"


NEVER = Requirements(frozenset(), exact=True)
ALWAYS = Requirements(frozenset({frozenset()}), exact=True)
UNKNOWN = ALWAYS.inexact()


def require_pattern(pattern: Pattern) -> Requirements:
    return Requirements(frozenset({frozenset({pattern})}), exact=True)


def require_both(left: Requirements, right: Requirements) -> Requirements:
    exact = left.exact and right.exact
    if len(left.alternatives) * len(right.alternatives) > MAX_ALTERNATIVES:
        shorter = min(left, right, key=lambda side: len(side.alternatives))
        return shorter.inexact()
    products = frozenset(a | b for a in left.alternatives for b in right.alternatives)
    return _simplify(products, exact)


def require_either(left: Requirements, right: Requirements) -> Requirements:
    return _simplify(left.alternatives | right.alternatives, left.exact and right.exact)


def _simplify(alternatives: frozenset[Alternative], exact: bool) -> Requirements:
    if len(alternatives) > MAX_ALTERNATIVES:
        return UNKNOWN
    conjuncts = {_remove_implied(each) for each in alternatives}
    if any(len(each) > MAX_CONJUNCTS for each in conjuncts):
        exact = False
        conjuncts = {_select_rarest(each) for each in conjuncts}
    weakest = frozenset(each for each in conjuncts if not any(other < each for other in conjuncts))
    return Requirements(weakest, exact)


def _remove_implied(patterns: Alternative) -> Alternative:
    return frozenset(
        p for p in patterns if not any(q is not p and q != p and q.implies(p) for q in patterns)
    )


def _select_rarest(patterns: Alternative) -> Alternative:
    ranked = sorted(patterns, key=lambda p: (-p.weight, str(p)))
    return frozenset(ranked[:MAX_CONJUNCTS])
