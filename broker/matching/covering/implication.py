"""Covering of one query by another: a sound, structural, transitive test (F8).

Each step of the wider path maps to a step of the narrower one. `and` and `or` are decided operand
by operand. DTDs are not used.
"""

from __future__ import annotations

import math

from broker.matching.covering.formula import (
    FALSE,
    TRUE,
    Atom,
    Connective,
    Exists,
    Formula,
    Not,
    Opaque,
    PathStep,
)
from broker.matching.paths.pattern import LabelKind
from broker.matching.query.number import parse_number
from broker.matching.query.tree import COMPARISONS, PathStart


def is_true_of(atom: Atom, value: str) -> bool:
    constant = atom.constant
    if atom.operator == "starts-with":
        return value.startswith(str(constant))
    if atom.operator == "contains":
        return str(constant) in value
    if isinstance(constant, str):
        return (value == constant) == (atom.operator == "=")
    return COMPARISONS[atom.operator](parse_number(value), constant)


def atom_implies(one: Atom, other: Atom) -> bool:
    """True if `other` is true of every value of which `one` is. Transitive and sound."""
    if one.subject != other.subject or one.numeric != other.numeric:
        return False
    if (one.operator, one.constant) == (other.operator, other.constant):
        return type(one.constant) is type(other.constant)
    if isinstance(one.constant, str):
        return _string_implies(one.operator, one.constant, other)
    if isinstance(other.constant, float):
        return _number_implies(one.operator, one.constant, other.operator, other.constant)
    # A number equal to the constant may be written differently, but a text with another number is
    # excluded.
    return (
        one.operator == "="
        and other.operator == "!="
        and parse_number(other.constant) != one.constant
    )


def _string_implies(sign: str, constant: str, other: Atom) -> bool:
    if sign == "=":
        return is_true_of(other, constant)
    if not isinstance(other.constant, str):
        return False
    if sign == "starts-with":
        if other.operator == "starts-with":
            return constant.startswith(other.constant)
        if other.operator == "!=":
            return not other.constant.startswith(constant)
        return other.operator == "contains" and other.constant in constant
    if sign == "contains":
        if other.operator == "!=":
            return constant not in other.constant
        return other.operator == "contains" and other.constant in constant
    return False


def _number_implies(sign: str, bound: float, other: str, limit: float) -> bool:
    if sign == "=":
        return COMPARISONS[other](bound, limit)
    if sign == "!=" or other == "=" or math.isnan(bound) or math.isnan(limit):
        return False
    if sign[0] == "<":
        # Ranges below a bound are mirrored.
        return _lower_bound_implies(
            sign.translate(_MIRROR), -bound, other.translate(_MIRROR), -limit
        )
    return _lower_bound_implies(sign, bound, other, limit)


_MIRROR = str.maketrans("<>", "><")


def _lower_bound_implies(sign: str, bound: float, other: str, limit: float) -> bool:
    if other == "!=":
        return limit <= bound if sign == ">" else limit < bound
    if other == ">=" or (other == ">" and sign == ">"):
        return bound >= limit
    return other == ">" and bound > limit


def implies(one: Formula, other: Formula) -> bool:
    """True if `other` follows from `one` in any context; False if that is not proved."""
    return _Proof().proves(one, other)


class _Proof:
    def __init__(self) -> None:
        self._known: dict[tuple[Formula, Formula], bool] = {}

    def proves(self, one: Formula, other: Formula) -> bool:
        if one == other or other == TRUE or one == FALSE:
            return True
        if isinstance(one, Atom) and isinstance(other, Atom):
            return atom_implies(one, other)
        key = (one, other)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._prove(one, other)
        return known

    def _prove(self, one: Formula, other: Formula) -> bool:
        if isinstance(one, Connective) and one.operator == "or":
            return all(self.proves(each, other) for each in one.operands)
        if isinstance(other, Connective) and other.operator == "and":
            return all(self.proves(one, each) for each in other.operands)
        if isinstance(other, Connective) and any(self.proves(one, each) for each in other.operands):
            return True
        match one:
            case Connective():
                return any(self.proves(each, other) for each in one.operands)
            case Not() if isinstance(other, Not):
                return self.proves(other.operand, one.operand)
            case Exists() if isinstance(other, Exists):
                return one.origin is other.origin and _Embedding(self, one, other).embeds(0, 0)
            case Atom() | Opaque():
                return any(self.proves(each, other) for each in one.implied)
        return False


class _Embedding:
    """Maps the steps of `wide` to nodes that must exist by `narrow`."""

    def __init__(self, proof: _Proof, narrow: Exists, wide: Exists) -> None:
        self._proof = proof
        self._narrow = narrow.steps
        self._wide = wide.steps
        self._known: dict[tuple[int, int], bool] = {}

    def embeds(self, done: int, place: int) -> bool:
        """True if the steps from `done` on lead somewhere from the node after `place` steps."""
        if done == len(self._wide):
            return True
        key = (done, place)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._embeds_next(done, place) or self._embeds_in_predicate(
                done, place
            )
        return known

    def _embeds_next(self, done: int, place: int) -> bool:
        if place == len(self._narrow):
            return False
        step, mine = self._wide[done], self._narrow[place]
        if step.descendant:
            # The step ends at the next node or below it.
            if mine.kind in (None, LabelKind.ELEMENT) and self.embeds(done, place + 1):
                return True
        elif mine.descendant:
            return False
        return (
            _label_matches(mine, step)
            and self._satisfies(place, step)
            and self.embeds(done + 1, place + 1)
        )

    def _embeds_in_predicate(self, done: int, place: int) -> bool:
        if not place:
            return False
        rest = Exists(PathStart.CONTEXT, self._wide[done:])
        return any(self._proof.proves(each, rest) for each in self._narrow[place - 1].predicates)

    def _satisfies(self, place: int, step: PathStep) -> bool:
        if not step.predicates:
            return True
        facts = list(self._narrow[place].predicates)
        rest = self._narrow[place + 1 :]
        if rest:
            facts.append(Exists(PathStart.CONTEXT, rest))
        return all(self._follows(facts, each) for each in step.predicates)

    def _follows(self, facts: list[Formula], required: Formula) -> bool:
        """True if `required` follows from all facts together, as from their `and`."""
        if isinstance(required, Connective):
            if required.operator == "and":
                return all(self._follows(facts, each) for each in required.operands)
            if any(self._follows(facts, each) for each in required.operands):
                return True
        return any(self._proof.proves(each, required) for each in facts)


def _label_matches(mine: PathStep, step: PathStep) -> bool:
    """True if every node with the label and position of `mine` has those of `step`."""
    if step.positional_text:
        same = (mine.kind, mine.namespace, mine.local) == (step.kind, step.namespace, step.local)
        return same and mine.positional_text == step.positional_text
    if step.kind is None:
        if mine.kind is LabelKind.ATTRIBUTE or (mine.kind is not None and step.namespace):
            return False
    elif mine.kind is not step.kind:
        return False
    return step.namespace in (None, mine.namespace) and step.local in (None, mine.local)
