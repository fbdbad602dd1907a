"""Partial evaluator: a template on a shape becomes a residual formula.

Names, structure, positions and constants are decided once for each shape. Comparisons of slots
remain. libxml2 defines the semantics (DESIGN 5).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from broker.matching.partial import function_library as library
from broker.matching.partial.evaluation_input import EvaluationInput, EvaluationResult
from broker.matching.partial.formula import (
    FALSE,
    TRUE,
    UNKNOWN,
    Atom,
    Formula,
    all_of,
    any_of,
    equivalence,
    has_more_atoms,
    negate,
    operand_count,
)
from broker.matching.partial.guarded_value import GuardedValue, apply_function, truth_formula
from broker.matching.partial.node_set import Context, PathWalker, PredicateFunction
from broker.matching.partial.source import Constant
from broker.matching.partial.template import Template
from broker.matching.partial.value_evaluator import NO_POSITION, ValueEvaluator
from broker.matching.partial.work_budget import TooExpensive, Undecidable, WorkBudget
from broker.matching.query import tree
from broker.matching.query.tree import ValueType
from broker.matching.query.value_type import value_type
from broker.matching.shape.tree import Node

#: Work for one template on one shape, in visited nodes, and comparisons in its formula. Beyond them
#: the template is undecided on the shape.
MAX_VISITS = 30_000
MAX_COMPARISONS = 2_048


#: Parameter, compared expression, is numeric, is a node-set.
_LiteralComparison: TypeAlias = tuple[int, tree.Expression, bool, bool]


def evaluate_template(
    template: Template, evaluation_input: EvaluationInput, work: WorkBudget | None = None
) -> EvaluationResult:
    """Evaluate a template as far as the shape decides it, within `work`; by default it is
    `MAX_VISITS`."""
    evaluator = Evaluator(template, evaluation_input, work or WorkBudget(MAX_VISITS))
    try:
        return evaluator.evaluate()
    finally:
        evaluator.release()


class Evaluator(ValueEvaluator):
    def __init__(
        self, template: Template, evaluation_input: EvaluationInput, work: WorkBudget
    ) -> None:
        super().__init__(template, evaluation_input, work)
        self._max_work = work.limit
        self._walker = PathWalker(
            template.namespaces,
            self._predicate_function,
            self.work,
            evaluation_input.elements_by_name,
        )
        self.reasons: dict[str, None] = {}
        self._comparisons: dict[int, _LiteralComparison | None] = {}

    @property
    def root_element(self) -> Node:
        return next(n for n in self._input.payload.children if n.local)

    def evaluate(self) -> EvaluationResult:
        parts = self._template.parts
        found = []
        element = self.root_element
        for place, part in enumerate(parts, 1):
            # At most half of the remaining work, but all of it for the last part: an expensive part
            # must not leave the others undecided.
            left = self._max_work - self.work.spent
            self.work.limit = self._max_work if place == len(parts) else self.work.spent + left // 2
            try:
                found.append(self._evaluate_conjunct(part, Context(element)))
            except TooExpensive as reason:
                found.append(self._unknown(reason))
        visits = self.work.spent + (sum(map(operand_count, found)) >> 1)
        return EvaluationResult(all_of(found), tuple(self.reasons), min(visits, self._max_work))

    def release(self) -> None:
        """End the reference cycles: only the garbage collector would end the event's tree."""
        self._results.clear()
        del self._walker

    def _evaluate_conjunct(self, expression: tree.Expression, context: Context) -> Formula:
        formula = self.evaluate_boolean(expression, context)
        if has_more_atoms(formula, MAX_COMPARISONS):
            return self._unknown(f"it takes more than {MAX_COMPARISONS} comparisons")
        return formula

    def _unknown(self, reason: object) -> Formula:
        self.reasons[str(reason)] = None
        return UNKNOWN

    # ---------------------------------------------------------------- booleans

    def evaluate_boolean(self, expression: tree.Expression, context: Context) -> Formula:
        self.work.spend()
        try:
            return self._compute_boolean(expression, context)
        except Undecidable as reason:
            return self._unknown(reason)

    def _compute_boolean(self, expression: tree.Expression, context: Context) -> Formula:
        match expression:
            case tree.Chain(operator="and", operands=operands):
                return self._compute_conjunction(operands, context)
            case tree.Chain(operator="or", operands=operands):
                return any_of([self.evaluate_boolean(operand, context) for operand in operands])
            case tree.Binary() if value_type(expression) is ValueType.BOOLEAN:
                return self._compute_comparison(expression, context)
            case tree.FunctionCall() if value_type(expression) is ValueType.BOOLEAN:
                return self._compute_boolean_call(expression, context)
        match value_type(expression):
            case ValueType.NODE_SET:
                members = self.evaluate_nodes(expression, context)
                if members and members[0][1] is TRUE:
                    return TRUE
                return any_of(self.work.spend_on_join([condition for _, condition in members]))
            case ValueType.NUMBER:
                return _any_true(
                    apply_function(library.is_nonzero, self.evaluate_number(expression, context))
                )
            case _:
                return _any_true(apply_function(bool, self.evaluate_text(expression, context)))

    def _compute_conjunction(
        self, operands: tuple[tree.Expression, ...], context: Context
    ) -> Formula:
        parts = []
        for operand in operands:
            part = self.evaluate_boolean(operand, context)
            if part is FALSE:
                return FALSE
            parts.append(part)
        return all_of(parts)

    def _compute_boolean_call(self, call: tree.FunctionCall, context: Context) -> Formula:
        match call.name:
            case "true":
                return TRUE
            case "false":
                return FALSE
            case "not":
                return negate(self.evaluate_boolean(call.arguments[0], context))
            case "boolean":
                return self.evaluate_boolean(call.arguments[0], context)
            case "starts-with" | "contains":
                subject = self.evaluate_text(call.arguments[0], context)
                parameter = self._template.parameter_at.get(call.position)
                if parameter is not None:
                    return _any_atom_holds(parameter, subject)
                function = bytes.startswith if call.name == "starts-with" else operator.contains
                return _any_true(
                    apply_function(
                        function, subject, self.evaluate_text(call.arguments[1], context)
                    )
                )
        raise Undecidable(f"{call.name}() is not decided on a shape")

    def _compute_comparison(self, node: tree.Binary, context: Context) -> Formula:
        try:
            comparison = self._comparisons[node.position]
        except KeyError:
            comparison = self._comparisons[node.position] = self._literal_comparison(node)
        if comparison is None:
            return compare_operands(self, node, context)
        parameter, subject, numeric, several = comparison
        if several:
            members = self.evaluate_nodes(subject, context)
            self.work.spend(len(members))
            value_of = self.number_value if numeric else self.string_value
            found = []
            for member, condition in members:
                atom = _any_atom_holds(parameter, value_of(member))
                if condition is not TRUE:
                    atom = all_of(self.work.spend_on_join((condition, atom)))
                found.append(atom)
            return found[0] if len(found) == 1 else any_of(self.work.spend_on_join(found))
        read = self.evaluate_number if numeric else self.evaluate_text
        return _any_atom_holds(parameter, read(subject, context))

    def _literal_comparison(self, node: tree.Binary) -> _LiteralComparison | None:
        parameter = self._template.parameter_at.get(node.position)
        if parameter is None:
            return None
        subject = node.right if tree.literal_value(node.right) is None else node.left
        several = value_type(subject) is ValueType.NODE_SET
        return parameter, subject, self._template.parameters[parameter].is_numeric, several

    def _predicate_function(self, predicate: tree.Expression) -> PredicateFunction:
        if value_type(predicate) is ValueType.NUMBER:
            return partial(self._evaluate_position_predicate, predicate)
        if id(predicate) in self._context_free:
            return partial(self._evaluate_once, self.evaluate_boolean, predicate)
        return partial(self.evaluate_boolean, predicate)

    def _evaluate_position_predicate(self, place: tree.Expression, context: Context) -> Formula:
        if context.position is None:
            return self._unknown(NO_POSITION)
        if isinstance(place, tree.Number):
            return TRUE if context.position == place.value else FALSE
        try:
            position = self._context_position(context)
            return _any_true(
                apply_function(operator.eq, position, self.evaluate_number(place, context))
            )
        except Undecidable as reason:
            return self._unknown(reason)


def _any_true(cases: GuardedValue) -> Formula:
    return any_of([all_of((when, truth_formula(source))) for when, source in cases])


def _any_atom_holds(parameter: int, cases: GuardedValue) -> Formula:
    if len(cases) == 1 and cases[0][0] is TRUE:
        return Atom(parameter, cases[0][1])
    return any_of([all_of((when, Atom(parameter, source))) for when, source in cases])


#: Pairs of two node-sets; larger products are compared only if all members are constants.
MAX_PAIRS = 1_024


def compare_operands(evaluator: ValueEvaluator, node: tree.Binary, context: Context) -> Formula:
    sides = (node.left, node.right)
    kinds = {value_type(side) for side in sides}
    equality = node.operator in ("=", "!=")
    if ValueType.BOOLEAN in kinds:
        if equality:
            # No loop, which would add a frame per level: such comparisons nest deeply.
            agreed = equivalence(
                evaluator.evaluate_boolean(node.left, context),
                evaluator.evaluate_boolean(node.right, context),
            )
            return agreed if node.operator == "=" else negate(agreed)
        if ValueType.NODE_SET in kinds:
            raise Undecidable("ordering a node-set and a boolean is not decided on a shape")
    numeric = not equality or ValueType.NUMBER in kinds
    left, right = (_operand_values(evaluator, side, context, numeric=numeric) for side in sides)
    if len(left) * len(right) > MAX_PAIRS:
        some, others = _constant_values(left), _constant_values(right)
        if some is not None and others is not None:
            evaluator.work.spend(len(some) + len(others))
            return TRUE if _some_pair_holds(node.operator, some, others) else FALSE
        raise Undecidable(f"two node-sets have more than {MAX_PAIRS} pairs")
    evaluator.work.spend(len(left) * len(right))
    function = tree.COMPARISONS[node.operator]
    join = evaluator.work.spend_on_join
    return any_of(
        [
            all_of(join((one_when, other_when, _compare_pair(function, one, other))))
            for one_when, one in left
            for other_when, other in right
        ]
    )


def _operand_values(
    evaluator: ValueEvaluator, side: tree.Expression, context: Context, *, numeric: bool
) -> list[tuple[Formula, GuardedValue]]:
    """Each member's value with its condition, or the one value."""
    if value_type(side) is not ValueType.NODE_SET:
        read: Callable[..., Any] = evaluator.evaluate_number if numeric else evaluator.evaluate_text
        return [(all_of(()), read(side, context))]
    members = []
    for node, condition in evaluator.evaluate_nodes(side, context):
        members.append(
            (condition, evaluator.number_value(node) if numeric else evaluator.string_value(node))
        )
    return members


def _constant_values(values: list[tuple[Formula, GuardedValue]]) -> list[Any] | None:
    found = []
    for when, cases in values:
        [(case, source), *more] = cases
        if when is not TRUE or case is not TRUE or more or not isinstance(source, Constant):
            return None
        found.append(source.value)
    return found


def _some_pair_holds(operator: str, left: list[Any], right: list[Any]) -> bool:
    # NaN equals nothing, not even itself, and differs from everything.
    some, others = ({value for value in side if value == value} for side in (left, right))
    if operator == "=":
        return not some.isdisjoint(others)
    if operator == "!=":
        return len(some | others) > 1 or any(value != value for value in (*left, *right))
    if not some or not others:
        return False
    if operator in ("<", "<="):
        return tree.COMPARISONS[operator](min(some), max(others))
    return tree.COMPARISONS[operator](max(some), min(others))


def _compare_pair(function: Callable[..., bool], one: GuardedValue, other: GuardedValue) -> Formula:
    return any_of(
        [
            all_of((when, truth_formula(source)))
            for when, source in apply_function(function, one, other)
        ]
    )
