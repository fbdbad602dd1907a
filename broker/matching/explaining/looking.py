"""What becomes of a query on one shape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

import attrs

from broker.matching.explaining.access import access_on
from broker.matching.explaining.explanation import How
from broker.matching.explaining.labels import Labels
from broker.matching.explaining.placed import PlacedSubjects
from broker.matching.explaining.settling import Settled, settle, slots_of
from broker.matching.partial.evaluator import evaluate
from broker.matching.partial.formula import FALSE, TRUE, is_decided, possible
from broker.matching.partial.evaluation_input import Decision
from broker.matching.partial.template import Instance
from broker.matching.query.query import Query
from broker.matching.shape.shape import Shape
from broker.matching.shape.tree import Node
from broker.matching.switching.plan import subjects_of

#: Places of one comparison in one shape whose paths are told at all.
MAX_PLACES: Final = 64

_STRUCTURE: Final = "documents of this structure have not what it asks for"
_CONSTANTS: Final = "what it asks for is a constant there, with another value"
_NO_CONDITION: Final = "nothing is known that must hold before: it is evaluated each time"

#: (hole, constant): comparisons that are told as one, with all their paths.
Kind: TypeAlias = tuple[int, bool]


@attrs.frozen
class OnShape:
    """What becomes of one alternative; equal where only the paths differ."""

    how: How
    access: str
    reasons: tuple[str, ...]
    kinds: tuple[Kind, ...]
    paths: dict[Kind, dict[str, None]] = attrs.field(eq=False)


class Looking:
    """Looks at one shape for one query."""

    def __init__(self, shape: Shape, query: Query) -> None:
        self._subjects = subjects_of(shape)
        self._labels = Labels(query)
        self._variables = query.variables
        self._slots: dict[int, str | Node] | None = None

    def at(self, instance: Instance) -> OnShape:
        """What becomes of an alternative. Where constants lie is not told: see `constants`."""
        decision = evaluate(instance.template, self._subjects)
        if decision.formula is TRUE:
            return OnShape(How.ALWAYS, "", (), (), {})
        if decision.formula is FALSE:
            return OnShape(How.NEVER, "", (_STRUCTURE,), (), {})
        settled = settle(decision.formula, instance)
        how, reasons = _how(decision, settled)
        if how is How.NEVER:
            return OnShape(how, "", reasons, (), {})
        paths: dict[Kind, dict[str, None]] = {}
        for each in dict.fromkeys(settled.compared):
            known = paths.setdefault((each.hole, each.constant), {})
            if each.slot is not None and len(known) < MAX_PLACES:
                known[self._path(self._places()[each.slot])] = None
        access = "" if how is How.ALWAYS else access_on(instance, decision.formula)
        return OnShape(how, access, reasons, tuple(sorted(paths)), paths)

    def constants(self, instance: Instance) -> dict[int, dict[str, None]]:
        """For each hole the paths where constants are compared with it."""
        placed = PlacedSubjects(self._subjects)
        found: dict[int, dict[str, None]] = {}
        for each in dict.fromkeys(placed.settled(instance).compared):
            known = found.setdefault(each.hole, {})
            if each.slot is not None and each.constant and len(known) < MAX_PLACES:
                known[self._path(placed.place(each.slot))] = None
        return found

    def _places(self) -> dict[int, str | Node]:
        """What each slot is called: a variable that the query has, else a node of the payload."""
        if self._slots is None:
            slots: dict[int, str | Node] = {}
            for name in sorted(self._variables):
                for slot in slots_of(self._subjects.variables[name]):
                    slots[slot] = f"${name}"
            for root in (self._subjects.payload, self._subjects.envelope):
                for node in _nodes(root):
                    if isinstance(node.value, int):
                        slots.setdefault(node.value, node)
            self._slots = slots
        return self._slots

    def _path(self, place: str | Node) -> str:
        return place if isinstance(place, str) else self._labels.of_leaf(place)


def _how(decision: Decision, settled: Settled) -> tuple[How, tuple[str, ...]]:
    if possible(settled.formula) is FALSE:
        return How.NEVER, (_CONSTANTS,)
    if not is_decided(decision.formula):
        nothing = possible(decision.formula) is TRUE
        return How.EVALUATION, (*decision.reasons, *((_NO_CONDITION,) if nothing else ()))
    return (How.ALWAYS if settled.formula is TRUE else How.INDEX), ()


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    yield from node.attributes
    for child in node.children:
        yield from _nodes(child)
