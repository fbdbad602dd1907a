"""The values of expressions on a shape: numbers, texts and node-sets.

What a value depends on is a list of cases; see `evaluator.py` for what is true of them.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping

from broker.matching.partial import function_library as functions
from broker.matching.partial.axis import root_of
from broker.matching.partial.guarded_value import Cases, applied, constant, only
from broker.matching.partial.formula import (
    FALSE,
    TRUE,
    Formula,
    any_of,
    negation,
)
from broker.matching.partial.node_name import name_of
from broker.matching.partial.node_set import (
    Context,
    NodeSet,
    Walk,
    first_of,
    in_order,
    text_of,
)
from broker.matching.partial.evaluation_cache import Recall, Sharing
from broker.matching.partial.source import Constant
from broker.matching.partial.evaluation_input import Subjects
from broker.matching.partial.undecidable import Undecidable
from broker.matching.partial.work_budget import Work
from broker.matching.query import tree
from broker.matching.query.tree import Origin, ValueType
from broker.matching.query.value_type import value_type
from broker.matching.query.variables import VARIABLES
from broker.matching.shape.tree import Node

_TEXT_FUNCTIONS: Mapping[str, Callable[..., bytes]] = {
    "concat": functions.concatenation,
    "substring-before": functions.before,
    "substring-after": functions.after,
    "translate": functions.translated,
}
_NUMBER_FUNCTIONS = {
    "floor": functions.floor,
    "ceiling": functions.ceiling,
    "round": functions.rounded,
}
_ARITHMETIC = {
    "+": functions.plus,
    "-": functions.minus,
    "*": functions.times,
    "div": functions.divided,
    "mod": functions.remainder,
}

_EMPTY = Constant(b"")
NO_POSITION = "the position of a node depends on values"


class Values(abc.ABC):
    """Reads values for one template; `work` counts what that costs."""

    _subjects: Subjects
    _walk: Walk
    _recall: Recall
    work: Work

    @property
    def _sharing(self) -> Sharing:
        return self._subjects.sharing

    @abc.abstractmethod
    def _boolean(self, expression: tree.Expression, context: Context) -> Formula:
        """The expression's boolean value; raises `Undecidable`."""

    # ---------------------------------------------------------------- numbers

    def number(self, expression: tree.Expression, context: Context) -> Cases:
        """The expression's value as a number."""
        match expression:
            case tree.Number(value=value):
                return constant(value)
            case tree.Negation(operand=operand, signs=signs):
                value_cases = self.number(operand, context)
                return applied(functions.negative, value_cases) if signs % 2 else value_cases
            case tree.Binary(operator=operator, left=left, right=right) if operator in _ARITHMETIC:
                return applied(
                    _ARITHMETIC[operator], self.number(left, context), self.number(right, context)
                )
            case tree.Variable(name=name) if VARIABLES[name] is ValueType.NUMBER:
                return only(self._subjects.variables[name])
            case tree.FunctionCall() if value_type(expression) is ValueType.NUMBER:
                return self._recall.once(
                    self._sharing.numbers, self._number_call, expression, context
                )
        if value_type(expression) is ValueType.BOOLEAN:
            return self._of_boolean(expression, context, 1.0, 0.0)
        return applied(functions.number, self.text(expression, context))

    def _number_call(self, call: tree.FunctionCall, context: Context) -> Cases:
        match call.name:
            case "position":
                return self._position(context)
            case "last":
                if context.last is None:
                    raise Undecidable("last() depends on values")
                return constant(float(context.last))
            case "count":
                return constant(float(len(self._certain(call, context))))
            case "sum":
                nodes = self._certain(call, context)
                return applied(functions.total, *map(self.number_of, nodes))
            case "number":
                return (
                    self.number(call.arguments[0], context)
                    if call.arguments
                    else self.number_of(context.node)
                )
            case "string-length":
                return applied(functions.length, self._text_argument(call, context))
        return applied(_NUMBER_FUNCTIONS[call.name], self.number(call.arguments[0], context))

    def _position(self, context: Context) -> Cases:
        if context.position is None:
            raise Undecidable(NO_POSITION)
        return constant(float(context.position))

    def _certain(self, call: tree.FunctionCall, context: Context) -> list[Node]:
        members = self.nodes(call.arguments[0], context)
        if any(condition is not TRUE for _, condition in members):
            raise Undecidable(f"which nodes {call.name}() takes depends on values")
        return [node for node, _ in members]

    # ---------------------------------------------------------------- texts

    def text_of(self, node: Node) -> Cases:
        """The string-value of a node."""
        known = self._sharing.text_of.get(node)
        if known is None:
            done = self.work.done
            known = only(text_of(node, self.work))
            self._sharing.weigh(self.work.done - done)
            self._sharing.text_of[node] = known
        return known

    def number_of(self, node: Node) -> Cases:
        """The number of a node's string-value."""
        known = self._sharing.number_of.get(node)
        if known is None:
            known = applied(functions.number, self.text_of(node))
            self._sharing.weigh(0)
            self._sharing.number_of[node] = known
        return known

    def text(self, expression: tree.Expression, context: Context) -> Cases:
        """The expression's value as a text."""
        cases = self._recall.once(self._sharing.texts, self._text, expression, context)
        for _, source in cases:
            if isinstance(source, Constant):
                self.work.read(source.value)
        return cases

    def _text(self, expression: tree.Expression, context: Context) -> Cases:
        match expression:
            case tree.Literal(value=value):
                return constant(value.encode())
            case tree.Variable(name=name) if VARIABLES[name] is ValueType.STRING:
                return only(self._subjects.variables[name])
            case tree.FunctionCall() if value_type(expression) is ValueType.STRING:
                return self._text_call(expression, context)
        match value_type(expression):
            case ValueType.NODE_SET:
                return [
                    (when, _EMPTY if node is None else self.text_of(node)[0][1])
                    for when, node in first_of(self.nodes(expression, context), self.work)
                ]
            case ValueType.NUMBER:
                return applied(functions.text_of_number, self.number(expression, context))
            case _:
                return self._of_boolean(expression, context, b"true", b"false")

    def _text_call(self, call: tree.FunctionCall, context: Context) -> Cases:
        match call.name:
            case "string":
                return self._text_argument(call, context)
            case "normalize-space":
                return applied(functions.normalised, self._text_argument(call, context))
            case "local-name" | "namespace-uri" | "name":
                return self._name_call(call, context)
            case "substring":
                text, *places = call.arguments
                numbers = [self.number(place, context) for place in places]
                if len(numbers) == 1:
                    return applied(functions.from_place, self.text(text, context), numbers[0])
                match numbers:
                    case [[(_, Constant(value=start))], [(_, Constant(value=count))]]:
                        taking = functions.taking(start, count)
                        if taking is not None:
                            return applied(taking, self.text(text, context))
                return applied(functions.part, self.text(text, context), *numbers)
        texts = [self.text(argument, context) for argument in call.arguments]
        return applied(_TEXT_FUNCTIONS[call.name], *texts)

    def _text_argument(self, call: tree.FunctionCall, context: Context) -> Cases:
        if call.arguments:
            return self.text(call.arguments[0], context)
        return self.text_of(context.node)

    def _name_call(self, call: tree.FunctionCall, context: Context) -> Cases:
        if not call.arguments:
            return constant(name_of(call.name, context.node))
        members = first_of(self.nodes(call.arguments[0], context), self.work)
        return [(when, _constant_name(call.name, node)) for when, node in members]

    def _of_boolean(
        self, expression: tree.Expression, context: Context, yes: bytes | float, no: bytes | float
    ) -> Cases:
        formula = self._boolean(expression, context)
        return [(formula, Constant(yes)), (negation(formula), Constant(no))]

    # ---------------------------------------------------------------- node-sets

    def nodes(self, expression: tree.Expression, context: Context) -> NodeSet:
        """The expression's members in document order."""
        if not self._recall.is_shared(expression):
            return self._nodes(expression, context)
        members = self._recall.once(self._sharing.nodes, self._nodes, expression, context)
        # Whoever asks goes through all of them.
        self.work.spend(len(members))
        return members

    def _nodes(self, expression: tree.Expression, context: Context) -> NodeSet:
        match expression:
            case tree.Path(start=start, steps=steps):
                return self._walk.steps(self._start(start, context), steps)
            case tree.Filter(primary=primary, predicates=predicates):
                return self._walk.filtered(self.nodes(primary, context), predicates)
            case tree.Chain(operands=operands):
                found: dict[Node, Formula] = {}
                for operand in operands:
                    for node, condition in self.nodes(operand, context):
                        known = found.get(node, FALSE)
                        found[node] = any_of((known, condition))
                return self._united(found)
        raise Undecidable("id() is not decided on a shape")

    def _start(self, start: Origin | tree.Expression, context: Context) -> NodeSet:
        match start:
            case Origin.CONTEXT:
                return [(context.node, TRUE)]
            case Origin.DOCUMENT:
                return [(self._subjects.payload, TRUE)]
            case Origin.ENVELOPE:
                return [(self._subjects.envelope, TRUE)]
            case _:
                return self.nodes(start, context)

    def _united(self, found: dict[Node, Formula]) -> NodeSet:
        documents = set(map(root_of, found))
        if len(documents) > 1:
            raise Undecidable("payload and envelope in one node-set have no order")
        return in_order(found)


def _constant_name(function: str, node: Node | None) -> Constant:
    return _EMPTY if node is None else Constant(name_of(function, node))
