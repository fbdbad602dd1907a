"""Explains a query on one shape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

import attrs

from broker.matching.explain.access_method import access_method_on_shape
from broker.matching.explain.explanation import AnswerMethod
from broker.matching.explain.node_path import PathFormatter
from broker.matching.explain.slotted_subjects import SlottedSubjects
from broker.matching.explain.substitution import (
    SubstitutedFormula,
    iterate_slots,
    substitute_literals,
)
from broker.matching.partial.evaluation_input import EvaluationResult
from broker.matching.partial.evaluator import evaluate_template
from broker.matching.partial.formula import FALSE, TRUE, is_decided, necessary_condition
from broker.matching.partial.template import TemplateInstance
from broker.matching.query.query import Query
from broker.matching.shape.shape import Shape
from broker.matching.shape.tree import Node
from broker.matching.engine.shape_plan import subjects_of

#: Locations shown for one comparison in one shape.
MAX_LOCATIONS: Final = 64

_STRUCTURE: Final = "documents of this structure lack the nodes that it needs"
_CONSTANTS: Final = "it compares a constant that has another value"
_NO_CONDITION: Final = "no necessary condition is known, so it is evaluated on every event"

#: Parameter and whether a constant is compared. Comparisons of one kind are shown as one.
ComparisonKind: TypeAlias = tuple[int, bool]


@attrs.frozen
class ShapeAnswer:
    """Answer of one alternative. Equality ignores the paths."""

    how: AnswerMethod
    access: str
    reasons: tuple[str, ...]
    kinds: tuple[ComparisonKind, ...]
    paths: dict[ComparisonKind, dict[str, None]] = attrs.field(eq=False)


class ShapeExplainer:
    def __init__(self, shape: Shape, query: Query) -> None:
        self._subjects = subjects_of(shape)
        self._labels = PathFormatter(query)
        self._variables = query.variables
        self._slots: dict[int, str | Node] | None = None

    def explain_alternative(self, instance: TemplateInstance) -> ShapeAnswer:
        """Explain an alternative, without the paths of constants: see `find_constant_paths`."""
        decision = evaluate_template(instance.template, self._subjects)
        if decision.formula is TRUE:
            return ShapeAnswer(AnswerMethod.ALWAYS, "", (), (), {})
        if decision.formula is FALSE:
            return ShapeAnswer(AnswerMethod.NEVER, "", (_STRUCTURE,), (), {})
        substituted = substitute_literals(decision.formula, instance)
        how, reasons = _choose_method(decision, substituted)
        if how is AnswerMethod.NEVER:
            return ShapeAnswer(how, "", reasons, (), {})
        paths: dict[ComparisonKind, dict[str, None]] = {}
        for each in dict.fromkeys(substituted.comparisons):
            known = paths.setdefault((each.parameter, each.constant), {})
            if each.slot is not None and len(known) < MAX_LOCATIONS:
                known[self._format_location(self._locate_slots()[each.slot])] = None
        access = (
            "" if how is AnswerMethod.ALWAYS else access_method_on_shape(instance, decision.formula)
        )
        return ShapeAnswer(how, access, reasons, tuple(sorted(paths)), paths)

    def find_constant_paths(self, instance: TemplateInstance) -> dict[int, dict[str, None]]:
        """Return for each parameter the paths of the constants compared with it."""
        slotted = SlottedSubjects(self._subjects)
        found: dict[int, dict[str, None]] = {}
        for each in dict.fromkeys(slotted.substitute_literals(instance).comparisons):
            known = found.setdefault(each.parameter, {})
            if each.slot is not None and each.constant and len(known) < MAX_LOCATIONS:
                known[self._format_location(slotted.location_of(each.slot))] = None
        return found

    def _locate_slots(self) -> dict[int, str | Node]:
        if self._slots is None:
            slots: dict[int, str | Node] = {}
            for name in sorted(self._variables):
                for slot in iterate_slots(self._subjects.variables[name]):
                    slots[slot] = f"${name}"
            for root in (self._subjects.payload, self._subjects.envelope):
                for node in _iterate_nodes(root):
                    if isinstance(node.value, int):
                        slots.setdefault(node.value, node)
            self._slots = slots
        return self._slots

    def _format_location(self, place: str | Node) -> str:
        return place if isinstance(place, str) else self._labels.format_leaf(place)


def _choose_method(
    decision: EvaluationResult, substituted: SubstitutedFormula
) -> tuple[AnswerMethod, tuple[str, ...]]:
    if necessary_condition(substituted.formula) is FALSE:
        return AnswerMethod.NEVER, (_CONSTANTS,)
    if not is_decided(decision.formula):
        nothing = necessary_condition(decision.formula) is TRUE
        return AnswerMethod.EVALUATION, (*decision.reasons, *((_NO_CONDITION,) if nothing else ()))
    return (AnswerMethod.ALWAYS if substituted.formula is TRUE else AnswerMethod.INDEX), ()


def _iterate_nodes(node: Node) -> Iterator[Node]:
    yield node
    yield from node.attributes
    for child in node.children:
        yield from _iterate_nodes(child)
