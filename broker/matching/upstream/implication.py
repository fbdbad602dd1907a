"""When one query covers another: a sound test, by structure (F8).

Paths are compared by homomorphism: every step of the wider one is mapped to a step of the narrower.
That an `and` or `or` follows is sought operand by operand, as in a free lattice, so the test is
transitive; equivalences of propositional logic beyond that, and what a DTD knows, are not seen.
"""

from __future__ import annotations

from broker.matching.paths.pattern import LabelKind
from broker.matching.query.query import Query
from broker.matching.query.tree import Origin
from broker.matching.upstream import values
from broker.matching.upstream.formula import (
    FALSE,
    TRUE,
    Atom,
    Branch,
    Exists,
    Formula,
    Joint,
    Not,
    Opaque,
)
from broker.matching.upstream.normal import form_of


def covers(wide: Query, narrow: Query) -> bool:
    """Whether every event that matches `narrow` matches `wide`; False if that is not seen (F8)."""
    return implies(form_of(narrow), form_of(wide))


def implies(one: Formula, other: Formula) -> bool:
    """Whether `other` is true wherever `one` is, in any context; False if that is not seen."""
    return _Proof().shows(one, other)


class _Proof:
    """One question; what was answered on the way is kept, so each pair costs once."""

    def __init__(self) -> None:
        self._known: dict[tuple[Formula, Formula], bool] = {}

    def shows(self, one: Formula, other: Formula) -> bool:
        if one == other or other == TRUE or one == FALSE:
            return True
        if isinstance(one, Atom) and isinstance(other, Atom):
            return values.implies(one, other)
        key = (one, other)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._shows(one, other)
        return known

    def _shows(self, one: Formula, other: Formula) -> bool:
        if isinstance(one, Joint) and one.operator == "or":
            return all(self.shows(each, other) for each in one.operands)
        if isinstance(other, Joint) and other.operator == "and":
            return all(self.shows(one, each) for each in other.operands)
        if isinstance(other, Joint) and any(self.shows(one, each) for each in other.operands):
            return True
        match one:
            case Joint():
                return any(self.shows(each, other) for each in one.operands)
            case Not() if isinstance(other, Not):
                return self.shows(other.operand, one.operand)
            case Exists() if isinstance(other, Exists):
                return one.origin is other.origin and _Embedding(self, one, other).found(0, 0)
            case Atom() | Opaque():
                return any(self.shows(each, other) for each in one.needs)
        return False


class _Embedding:
    """Maps the steps of `wide` to nodes that `narrow` says there are."""

    def __init__(self, proof: _Proof, narrow: Exists, wide: Exists) -> None:
        self._proof = proof
        self._narrow = narrow.steps
        self._wide = wide.steps
        self._known: dict[tuple[int, int], bool] = {}

    def found(self, done: int, place: int) -> bool:
        """Whether the steps from `done` on lead somewhere from the node behind `place` steps."""
        if done == len(self._wide):
            return True
        key = (done, place)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._onward(done, place) or self._aside(done, place)
        return known

    def _onward(self, done: int, place: int) -> bool:
        if place == len(self._narrow):
            return False
        step, mine = self._wide[done], self._narrow[place]
        if step.descendant:
            # Either the next node is it, or it lies below that.
            if mine.kind in (None, LabelKind.ELEMENT) and self.found(done, place + 1):
                return True
        elif mine.descendant:
            return False
        return (
            _passes(mine, step) and self._fulfils(place, step) and self.found(done + 1, place + 1)
        )

    def _aside(self, done: int, place: int) -> bool:
        """Along what a predicate says there is."""
        if not place:
            return False
        rest = Exists(Origin.CONTEXT, self._wide[done:])
        return any(self._proof.shows(each, rest) for each in self._narrow[place - 1].predicates)

    def _fulfils(self, place: int, step: Branch) -> bool:
        if not step.predicates:
            return True
        facts = list(self._narrow[place].predicates)
        rest = self._narrow[place + 1 :]
        if rest:
            facts.append(Exists(Origin.CONTEXT, rest))
        return all(self._follows(facts, each) for each in step.predicates)

    def _follows(self, facts: list[Formula], wanted: Formula) -> bool:
        """Whether it follows from all facts together; the same search as for an `and` of them."""
        if isinstance(wanted, Joint):
            if wanted.operator == "and":
                return all(self._follows(facts, each) for each in wanted.operands)
            if any(self._follows(facts, each) for each in wanted.operands):
                return True
        return any(self._proof.shows(each, wanted) for each in facts)


def _passes(mine: Branch, step: Branch) -> bool:
    """Whether whatever has the one step's name and place has the other's."""
    if step.ordered:
        same = (mine.kind, mine.namespace, mine.local) == (step.kind, step.namespace, step.local)
        return same and mine.ordered == step.ordered
    if step.kind is None:
        if mine.kind is LabelKind.ATTRIBUTE or (mine.kind is not None and step.namespace):
            return False
    elif mine.kind is not step.kind:
        return False
    return step.namespace in (None, mine.namespace) and step.local in (None, mine.local)
