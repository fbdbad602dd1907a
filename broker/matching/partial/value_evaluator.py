"""Partial evaluation of numbers, texts and node-sets; `evaluator.py` adds booleans."""

from __future__ import annotations

import abc
import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from broker.matching.partial import function_library as library
from broker.matching.partial.axis import root_of
from broker.matching.partial.evaluation_input import EvaluationInput
from broker.matching.partial.formula import FALSE, TRUE, Formula, any_of, negate
from broker.matching.partial.guarded_value import (
    GuardedValue,
    apply_function,
    unguarded,
    unguarded_constant,
)
from broker.matching.partial.node_set import (
    Context,
    NodeSet,
    PathWalker,
    first_member_cases,
    sort_members,
    string_value,
)
from broker.matching.partial.source import Constant
from broker.matching.partial.template import Template
from broker.matching.partial.work_budget import Undecidable, WorkBudget
from broker.matching.query import tree
from broker.matching.query.tree import PathStart, ValueType
from broker.matching.query.value_type import VARIABLE_TYPES, value_type
from broker.matching.shape.tree import Node

_TEXT_FUNCTIONS: Mapping[str, Callable[..., bytes]] = {
    "concat": library.concat,
    "substring-before": library.substring_before,
    "substring-after": library.substring_after,
    "translate": library.translate,
}
_NUMBER_FUNCTIONS = {
    "floor": library.floor,
    "ceiling": library.ceiling,
    "round": library.round_half_up,
}
_ARITHMETIC = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "div": library.divide,
    "mod": library.modulo,
}

_EMPTY_TEXT = Constant(b"")
_Value = TypeVar("_Value")
NO_POSITION = "the position of a node depends on values"


class ValueEvaluator(abc.ABC):
    """Evaluates the values of one template; `work` counts the cost."""

    _walker: PathWalker

    def __init__(
        self, template: Template, evaluation_input: EvaluationInput, work: WorkBudget
    ) -> None:
        self._template = template
        self._context_free = template.context_free
        self._input = evaluation_input
        self.work = work
        #: Results of subexpressions that are the same in every context.
        self._results: dict[tuple[Callable[..., Any], int], Any] = {}
        self._string_values: dict[Node, GuardedValue] = {}
        self._number_values: dict[Node, GuardedValue] = {}

    @abc.abstractmethod
    def evaluate_boolean(self, expression: tree.Expression, context: Context) -> Formula:
        """Return the boolean value; if undecidable, `UNKNOWN`, and record the reason."""

    @abc.abstractmethod
    def _compute_boolean(self, expression: tree.Expression, context: Context) -> Formula:
        """Return the boolean value; raises `Undecidable`."""

    def _evaluate_once(
        self,
        compute: Callable[[Any, Context], _Value],
        expression: tree.Expression,
        context: Context,
    ) -> _Value:
        """Return `compute(expression, context)`, cached if it is the same in every context."""
        if id(expression) not in self._context_free:
            return compute(expression, context)
        key = (compute, id(expression))
        known = self._results.get(key)
        if known is None:
            try:
                known = compute(expression, context)
            except Undecidable as reason:
                known = reason
            self._results[key] = known
        else:
            self.work.spend()
        if isinstance(known, Undecidable):
            raise Undecidable(*known.args)
        found: _Value = known
        return found

    # ---------------------------------------------------------------- numbers

    def evaluate_number(self, expression: tree.Expression, context: Context) -> GuardedValue:
        self.work.spend()
        match expression:
            case tree.Number(value=value):
                return unguarded_constant(value)
            case tree.Negation(operand=operand, signs=signs):
                value_cases = self.evaluate_number(operand, context)
                return apply_function(operator.neg, value_cases) if signs % 2 else value_cases
            case tree.Binary(operator=sign, left=left, right=right) if sign in _ARITHMETIC:
                return apply_function(
                    _ARITHMETIC[sign],
                    self.evaluate_number(left, context),
                    self.evaluate_number(right, context),
                )
            case tree.Variable(name=name) if VARIABLE_TYPES[name] is ValueType.NUMBER:
                return unguarded(self._input.variables[name])
            case tree.FunctionCall() if value_type(expression) is ValueType.NUMBER:
                return self._evaluate_once(self._compute_number_call, expression, context)
        if value_type(expression) is ValueType.BOOLEAN:
            return self._boolean_cases(expression, context, 1.0, 0.0)
        return apply_function(library.number, self.evaluate_text(expression, context))

    def _compute_number_call(self, call: tree.FunctionCall, context: Context) -> GuardedValue:
        match call.name:
            case "position":
                return self._context_position(context)
            case "last":
                if context.last is None:
                    raise Undecidable("last() depends on values")
                return unguarded_constant(float(context.last))
            case "count":
                return unguarded_constant(float(len(self._unconditional_nodes(call, context))))
            case "sum":
                nodes = self._unconditional_nodes(call, context)
                return apply_function(library.sum_numbers, *map(self.number_value, nodes))
            case "number":
                return (
                    self.evaluate_number(call.arguments[0], context)
                    if call.arguments
                    else self.number_value(context.node)
                )
            case "string-length":
                return apply_function(
                    library.string_length, self._argument_or_context_text(call, context)
                )
        return apply_function(
            _NUMBER_FUNCTIONS[call.name], self.evaluate_number(call.arguments[0], context)
        )

    def _context_position(self, context: Context) -> GuardedValue:
        if context.position is None:
            raise Undecidable(NO_POSITION)
        return unguarded_constant(float(context.position))

    def _unconditional_nodes(self, call: tree.FunctionCall, context: Context) -> list[Node]:
        members = self.evaluate_nodes(call.arguments[0], context)
        self.work.spend(len(members))
        if any(condition is not TRUE for _, condition in members):
            raise Undecidable(f"the argument of {call.name}() depends on values")
        return [node for node, _ in members]

    # ---------------------------------------------------------------- texts

    def string_value(self, node: Node) -> GuardedValue:
        known = self._string_values.get(node)
        if known is None:
            known = self._string_values[node] = unguarded(string_value(node, self.work))
        return known

    def number_value(self, node: Node) -> GuardedValue:
        known = self._number_values.get(node)
        if known is None:
            known = apply_function(library.number, self.string_value(node))
            self._number_values[node] = known
        return known

    def evaluate_text(self, expression: tree.Expression, context: Context) -> GuardedValue:
        cases = self._evaluate_once(self._compute_text, expression, context)
        for _, source in cases:
            if isinstance(source, Constant):
                self.work.spend_on_text(source.value)
        return cases

    def _compute_text(self, expression: tree.Expression, context: Context) -> GuardedValue:
        match expression:
            case tree.Literal(value=value):
                return unguarded_constant(value.encode())
            case tree.Variable(name=name) if VARIABLE_TYPES[name] is ValueType.STRING:
                return unguarded(self._input.variables[name])
            case tree.FunctionCall() if value_type(expression) is ValueType.STRING:
                return self._compute_text_call(expression, context)
        match value_type(expression):
            case ValueType.NODE_SET:
                return [
                    (when, _EMPTY_TEXT if node is None else self.string_value(node)[0][1])
                    for when, node in first_member_cases(
                        self.evaluate_nodes(expression, context), self.work
                    )
                ]
            case ValueType.NUMBER:
                return apply_function(
                    library.format_number, self.evaluate_number(expression, context)
                )
            case _:
                return self._boolean_cases(expression, context, b"true", b"false")

    def _compute_text_call(self, call: tree.FunctionCall, context: Context) -> GuardedValue:
        match call.name:
            case "string":
                return self._argument_or_context_text(call, context)
            case "normalize-space":
                return apply_function(
                    library.normalize_space, self._argument_or_context_text(call, context)
                )
            case "local-name" | "namespace-uri" | "name":
                return self._compute_name_call(call, context)
            case "substring":
                text, *places = call.arguments
                numbers = [self.evaluate_number(place, context) for place in places]
                if len(numbers) == 1:
                    return apply_function(
                        library.substring_from,
                        self.evaluate_text(text, context),
                        numbers[0],
                    )
                match numbers:
                    case [[(_, Constant(value=start))], [(_, Constant(value=count))]]:
                        taking = library.fixed_substring(start, count)
                        if taking is not None:
                            return apply_function(taking, self.evaluate_text(text, context))
                return apply_function(
                    library.substring, self.evaluate_text(text, context), *numbers
                )
        texts = [self.evaluate_text(argument, context) for argument in call.arguments]
        return apply_function(_TEXT_FUNCTIONS[call.name], *texts)

    def _argument_or_context_text(self, call: tree.FunctionCall, context: Context) -> GuardedValue:
        if call.arguments:
            return self.evaluate_text(call.arguments[0], context)
        return self.string_value(context.node)

    def _compute_name_call(self, call: tree.FunctionCall, context: Context) -> GuardedValue:
        if not call.arguments:
            return unguarded(self._name_of(call.name, context.node))
        members = first_member_cases(self.evaluate_nodes(call.arguments[0], context), self.work)
        return [(when, self._name_of(call.name, node)) for when, node in members]

    def _boolean_cases(
        self, expression: tree.Expression, context: Context, yes: bytes | float, no: bytes | float
    ) -> GuardedValue:
        formula = self._compute_boolean(expression, context)
        return [(formula, Constant(yes)), (negate(formula), Constant(no))]

    # ---------------------------------------------------------------- node-sets

    def evaluate_nodes(self, expression: tree.Expression, context: Context) -> NodeSet:
        members = self._evaluate_once(self._compute_nodes, expression, context)
        if id(expression) in self._context_free:
            # The caller iterates over all of them.
            self.work.spend(len(members))
        return members

    def _compute_nodes(self, expression: tree.Expression, context: Context) -> NodeSet:
        match expression:
            case tree.Path(start=start, steps=steps):
                return self._walker.follow_steps(self._start_nodes(start, context), steps)
            case tree.Filter(primary=primary, predicates=predicates):
                return self._walker.filter_members(
                    self.evaluate_nodes(primary, context), predicates
                )
            case tree.Chain(operands=operands):
                found: dict[Node, Formula] = {}
                for operand in operands:
                    for node, condition in self.evaluate_nodes(operand, context):
                        known = found.get(node, FALSE)
                        found[node] = any_of((known, condition))
                if len(set(map(root_of, found))) > 1:
                    raise Undecidable("payload and envelope in one node-set have no order")
                return sort_members(found)
        raise Undecidable("id() is not decided on a shape")

    def _start_nodes(self, start: PathStart | tree.Expression, context: Context) -> NodeSet:
        match start:
            case PathStart.CONTEXT:
                return [(context.node, TRUE)]
            case PathStart.DOCUMENT:
                return [(self._input.payload, TRUE)]
            case PathStart.ENVELOPE:
                return [(self._input.envelope, TRUE)]
            case _:
                return self.evaluate_nodes(start, context)

    def _name_of(self, function: str, node: Node | None) -> Constant:
        if node is None or not node.local:
            return _EMPTY_TEXT
        if function == "namespace-uri":
            return Constant((node.namespace or "").encode())
        if function == "local-name" or not node.namespace:
            return Constant(node.local.encode())
        self._input.reads_prefixes = True
        if self._input.prefixes_vary:
            raise Undecidable("the prefix differs between documents of this structure")
        prefix = f"{node.prefix}:" if node.prefix else ""
        return Constant(f"{prefix}{node.local}".encode())
