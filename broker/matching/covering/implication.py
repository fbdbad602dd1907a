"""Covering of one query by another: a sound, structural test (F8).

Paths are compared by homomorphism: each step of the wider path maps to a step of the narrower one.
`and` and `or` are decided operand by operand, as in a free lattice, so the test is transitive. It
does not find other equivalences of propositional logic, and does not use DTDs.
"""

from __future__ import annotations

from broker.matching.covering.atom_implication import atom_implies
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
from broker.matching.covering.normal_form import normalise_query
from broker.matching.paths.pattern import LabelKind
from broker.matching.query.query import Query
from broker.matching.query.tree import PathStart


def covers(wide: Query, narrow: Query) -> bool:
    """True if every event that matches `narrow` matches `wide`; False if not proved (F8)."""
    return implies(normalise_query(narrow), normalise_query(wide))


def implies(one: Formula, other: Formula) -> bool:
    """True if `other` follows from `one` in any context; False if that is not proved."""
    return _Proof().proves(one, other)


class _Proof:
    """One proof. Each pair of formulas is decided once."""

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
        """Use nodes that exist by a predicate."""
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
