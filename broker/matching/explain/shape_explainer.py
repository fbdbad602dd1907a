"""Explains a query on shapes. Shapes of one type with equal answers are one group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import attrs

from broker.dtd.reference import DtdReference
from broker.matching.engine.shape_plan import make_evaluation_input
from broker.matching.explain.access_method import (
    access_method_on_shape,
    format_literal,
    format_operator,
)
from broker.matching.explain.explanation import (
    AlternativeAnswer,
    AnswerMethod,
    Comparison,
    ShapesExplanation,
)
from broker.matching.explain.node_path import PathFormatter
from broker.matching.partial import formula as formulas
from broker.matching.partial.evaluation_input import EvaluationResult
from broker.matching.partial.evaluator import evaluate_template
from broker.matching.partial.formula import FALSE, TRUE, Formula
from broker.matching.partial.source import Computed, Constant, Slot, Source
from broker.matching.partial.template import TemplateInstance
from broker.matching.query.query import Query
from broker.matching.shape.shape import Shape
from broker.matching.shape.tree import Node

#: Locations shown for one comparison in one shape.
MAX_LOCATIONS: Final = 64
#: Paths shown of one comparison, and comparisons shown of one alternative.
MAX_PATHS: Final = 6
MAX_COMPARISONS: Final = 24

_STRUCTURE: Final = "documents of this structure lack the nodes that it needs"
_CONSTANTS: Final = "it compares a constant that has another value"
_NO_CONDITION: Final = "no necessary condition is known, so it is evaluated on every event"

#: Parameter and whether a constant is compared. Comparisons of one kind are shown as one.
ComparisonKind: TypeAlias = tuple[int, bool]
#: A comparison that still matters: its parameter, and its slot, None for a constant.
_Compared: TypeAlias = tuple[int, int | None]


@attrs.frozen
class ShapeAnswer:
    """Answer of one alternative. Equality ignores the paths. Constants have none."""

    how: AnswerMethod
    access: str = ""
    reasons: tuple[str, ...] = ()
    paths: dict[ComparisonKind, dict[str, None]] = attrs.field(factory=dict, eq=tuple)


class ShapeExplainer:
    def __init__(self, shape: Shape, query: Query) -> None:
        self._subjects = make_evaluation_input(shape)
        self._labels = PathFormatter(query)
        self._variables = query.variables
        self._slots: dict[int, str | Node] | None = None

    def explain_alternative(self, instance: TemplateInstance) -> ShapeAnswer:
        decision = evaluate_template(instance.template, self._subjects)
        if decision.formula is TRUE:
            return ShapeAnswer(AnswerMethod.ALWAYS)
        if decision.formula is FALSE:
            return ShapeAnswer(AnswerMethod.NEVER, reasons=(_STRUCTURE,))
        remaining, compared = substitute_literals(decision.formula, instance)
        how, reasons = _choose_method(decision, remaining)
        if how is AnswerMethod.NEVER:
            return ShapeAnswer(how, reasons=reasons)
        paths: dict[ComparisonKind, dict[str, None]] = {}
        for parameter, slot in dict.fromkeys(compared):
            known = paths.setdefault((parameter, slot is None), {})
            if slot is not None and len(known) < MAX_LOCATIONS:
                place = self._locate_slots()[slot]
                known[place if isinstance(place, str) else self._labels.format_leaf(place)] = None
        access = ""
        if how is not AnswerMethod.ALWAYS:
            access = access_method_on_shape(instance, decision.formula)
        return ShapeAnswer(how, access, reasons, dict(sorted(paths.items())))

    def _locate_slots(self) -> dict[int, str | Node]:
        if self._slots is None:
            slots: dict[int, str | Node] = {}
            for name in sorted(self._variables):
                for slot in _iterate_slots(self._subjects.variables[name]):
                    slots[slot] = f"${name}"
            for root in (self._subjects.payload, self._subjects.envelope):
                for node in _iterate_nodes(root):
                    if isinstance(node.value, int):
                        slots.setdefault(node.value, node)
            self._slots = slots
        return self._slots


class ShapeGroup:
    def __init__(self, reference: DtdReference, parts: tuple[TemplateInstance, ...]) -> None:
        self.shapes = 0
        self._reference = reference
        self._parts = parts
        self._first: Sequence[ShapeAnswer] = ()

    def add_shape(self, found: Sequence[ShapeAnswer]) -> None:
        self.shapes += 1
        self._first = self._first or found
        for first, answer in zip(self._first, found, strict=True):
            for kind, places in answer.paths.items():
                first.paths[kind].update(places)

    def to_explanation(self) -> ShapesExplanation:
        alternatives = tuple(
            AlternativeAnswer(
                how=answer.how,
                access=answer.access,
                reasons=answer.reasons,
                comparisons=tuple(
                    _comparison(part, kind, list(answer.paths[kind]))
                    for kind in list(answer.paths)[:MAX_COMPARISONS]
                ),
                more_comparisons=max(0, len(answer.paths) - MAX_COMPARISONS),
            )
            for part, answer in zip(self._parts, self._first, strict=True)
        )
        return ShapesExplanation(
            type=self._reference.type,
            version=self._reference.version,
            shapes=self.shapes,
            how=_overall_method([each.how for each in alternatives]),
            alternatives=alternatives,
        )


def substitute_literals(
    formula: Formula, instance: TemplateInstance
) -> tuple[Formula, tuple[_Compared, ...]]:
    match formula:
        case formulas.Atom(parameter=parameter, source=Constant(value=value)):
            test = instance.template.parameters[parameter].test
            holds = test(value, instance.literals[parameter])
            return (TRUE if holds else FALSE), ((parameter, None),)
        case formulas.Atom(parameter=parameter, source=source):
            return formula, tuple((parameter, slot) for slot in _iterate_slots(source))
        case formulas.Not(part=part):
            inner, compared = substitute_literals(part, instance)
            return formulas.negate(inner), compared
        case formulas.And(parts=parts):
            each = [substitute_literals(part, instance) for part in parts]
            whole = formulas.all_of(result for result, _ in each)
        case formulas.Or(parts=parts):
            each = [substitute_literals(part, instance) for part in parts]
            whole = formulas.any_of(result for result, _ in each)
            each = [result for result in each if result[0] is not FALSE]
        case _:
            return formula, ()
    return whole, tuple(pair for _, compared in each for pair in compared)


def _choose_method(
    decision: EvaluationResult, remaining: Formula
) -> tuple[AnswerMethod, tuple[str, ...]]:
    if formulas.necessary_condition(remaining) is FALSE:
        return AnswerMethod.NEVER, (_CONSTANTS,)
    if not formulas.is_decided(decision.formula):
        nothing = formulas.necessary_condition(decision.formula) is TRUE
        return AnswerMethod.EVALUATION, (*decision.reasons, *((_NO_CONDITION,) if nothing else ()))
    return (AnswerMethod.ALWAYS if remaining is TRUE else AnswerMethod.INDEX), ()


def _overall_method(hows: Sequence[AnswerMethod]) -> AnswerMethod:
    for how in (AnswerMethod.ALWAYS, AnswerMethod.EVALUATION, AnswerMethod.INDEX):
        if how in hows:
            return how
    return AnswerMethod.NEVER


def _comparison(instance: TemplateInstance, kind: ComparisonKind, paths: list[str]) -> Comparison:
    parameter, constant = kind
    return Comparison(
        operator=format_operator(instance.template.parameters[parameter].operator),
        literal=format_literal(instance.literals[parameter]),
        paths=tuple(paths[:MAX_PATHS]),
        more_paths=max(0, len(paths) - MAX_PATHS),
        constant=constant,
    )


def _iterate_slots(source: Source) -> Iterator[int]:
    match source:
        case Slot(number=number):
            yield number
        case Computed(arguments=arguments):
            for argument in arguments:
                yield from _iterate_slots(argument)


def _iterate_nodes(node: Node) -> Iterator[Node]:
    yield node
    yield from node.attributes
    for child in node.children:
        yield from _iterate_nodes(child)
