"""The partial evaluator: a template on a shape, as a formula.

Names, structure, positions and constants are decided here, once for a shape; what is left are
comparisons of slots. XPath's semantics are libxml2's, which is the oracle (DESIGN 5).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

from broker.content.partial import functions
from broker.content.partial.axes import root_of
from broker.content.partial.cases import Cases, applied, check, constant, only
from broker.content.partial.comparing import compared
from broker.content.partial.formula import (
    FALSE,
    TRUE,
    UNKNOWN,
    Atom,
    Formula,
    all_of,
    any_of,
    breadth,
    is_larger,
    negation,
)
from broker.content.partial.naming import name_of
from broker.content.partial.nodesets import (
    Condition,
    Context,
    NodeSet,
    Walk,
    first_of,
    in_order,
    text_of,
)
from broker.content.partial.sharing import Recall
from broker.content.partial.source import Constant
from broker.content.partial.subjects import Decision, Subjects
from broker.content.partial.template import Template, literal_of
from broker.content.partial.undecidable import Undecidable
from broker.content.partial.work import TooDear, Work
from broker.content.query import tree
from broker.content.query.tree import Origin, ValueType
from broker.content.query.valuetype import value_type
from broker.content.query.variables import VARIABLES
from broker.content.shape.tree import Node

#: Nodes that are looked at for one template on one shape, or as much other work, and comparisons in
#: its formula: beyond them the template counts as undecided on the shape.
MAX_VISITS = 20_000
MAX_COMPARISONS = 2_048

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


#: A hole, what is compared with its literal, whether as numbers, and whether that is a node-set.
_Comparison: TypeAlias = tuple[int, tree.Expression, bool, bool]


def evaluate(template: Template, subjects: Subjects) -> Decision:
    """Evaluate a template as far as the shape decides it."""
    return _Evaluator(template, subjects).decision()


class _Evaluator:
    def __init__(self, template: Template, subjects: Subjects) -> None:
        self._template = template
        self._subjects = subjects
        self._sharing = subjects.sharing
        self.work = Work(MAX_VISITS)
        self._walk = Walk(template.namespaces, self._predicate, self.work, subjects.names)
        self._recall = Recall(template.parts, subjects.sharing, self.work)
        self._comparisons: dict[int, _Comparison | None] = {}

    def decision(self) -> Decision:
        parts: tuple[tree.Expression, ...] = (self._template.expression,)
        match self._template.expression:
            case tree.Chain(operator="and", operands=operands):
                parts = operands
        found = []
        element = next(n for n in self._subjects.payload.children if n.local)
        for place, part in enumerate(parts, 1):
            # One dear part leaves something to the others: they may be all that the shape decides.
            left = MAX_VISITS - self.work.done
            self.work.most = MAX_VISITS if place == len(parts) else self.work.done + left // 2
            try:
                formula = self._recall.once(
                    self._sharing.conjuncts, self._conjunct, part, Context(element)
                )
                found.append(formula)
            except TooDear as reason:
                self._recall.note(reason)
                found.append(UNKNOWN)
        visits = self.work.done + (sum(map(breadth, found)) >> 1)
        return Decision(all_of(found), tuple(self._recall.reasons), min(visits, MAX_VISITS))

    def _conjunct(self, expression: tree.Expression, context: Context) -> Formula:
        formula = self.boolean(expression, context)
        if is_larger(formula, MAX_COMPARISONS):
            self._recall.note(f"it takes more than {MAX_COMPARISONS} comparisons")
            return UNKNOWN
        return formula

    # ---------------------------------------------------------------- booleans

    def boolean(self, expression: tree.Expression, context: Context) -> Formula:
        """The expression's boolean value; unknown with the reason noted if it is not decided."""
        try:
            return self._boolean(expression, context)
        except Undecidable as reason:
            self._recall.note(reason)
            return UNKNOWN

    def _boolean(self, expression: tree.Expression, context: Context) -> Formula:
        match expression:
            case tree.Chain(operator="and", operands=operands):
                return self._conjunction(operands, context)
            case tree.Chain(operator="or", operands=operands):
                return any_of([self.boolean(operand, context) for operand in operands])
            case tree.Binary() if value_type(expression) is ValueType.BOOLEAN:
                return self._comparison(expression, context)
            case tree.FunctionCall() if value_type(expression) is ValueType.BOOLEAN:
                return self._boolean_call(expression, context)
        match value_type(expression):
            case ValueType.NODE_SET:
                members = self.nodes(expression, context)
                return any_of(self.work.join([condition for _, condition in members]))
            case ValueType.NUMBER:
                return _any(applied(functions.is_nonzero, self.number(expression, context)))
            case _:
                return _any(applied(functions.is_nonempty, self.text(expression, context)))

    def _conjunction(self, operands: tuple[tree.Expression, ...], context: Context) -> Formula:
        parts = []
        for operand in operands:
            part = self.boolean(operand, context)
            if part is FALSE:
                return FALSE
            parts.append(part)
        return all_of(parts)

    def _boolean_call(self, call: tree.FunctionCall, context: Context) -> Formula:
        match call.name:
            case "true":
                return TRUE
            case "false":
                return FALSE
            case "not":
                return negation(self.boolean(call.arguments[0], context))
            case "boolean":
                return self.boolean(call.arguments[0], context)
            case "starts-with" | "contains":
                subject = self.text(call.arguments[0], context)
                hole = self._template.hole_at.get(call.position)
                if hole is not None:
                    return _any_atom(hole, subject)
                function = functions.begins if call.name == "starts-with" else functions.holds
                return _any(applied(function, subject, self.text(call.arguments[1], context)))
        raise Undecidable(f"{call.name}() is not decided on a shape")

    def _comparison(self, node: tree.Binary, context: Context) -> Formula:
        try:
            comparison = self._comparisons[node.position]
        except KeyError:
            comparison = self._comparisons[node.position] = self._with_literal(node)
        if comparison is None:
            return compared(self, node, context)
        hole, subject, numeric, several = comparison
        if several:
            members = self.nodes(subject, context)
            self.work.spend(len(members))
            value_of = self.number_of if numeric else self.text_of
            found = []
            for member, condition in members:
                atom = _any_atom(hole, value_of(member))
                if condition is not TRUE:
                    atom = all_of(self.work.join((condition, atom)))
                found.append(atom)
            return found[0] if len(found) == 1 else any_of(self.work.join(found))
        read = self.number if numeric else self.text
        return _any_atom(hole, read(subject, context))

    def _with_literal(self, node: tree.Binary) -> _Comparison | None:
        """What a comparison with a literal needs to know, None for another."""
        hole = self._template.hole_at.get(node.position)
        if hole is None:
            return None
        subject = node.right if literal_of(node.right) is None else node.left
        several = value_type(subject) is ValueType.NODE_SET
        return hole, subject, self._template.holes[hole].numeric, several

    def _predicate(self, predicate: tree.Expression) -> Condition:
        if value_type(predicate) is ValueType.NUMBER:
            return partial(self._at, predicate)
        if self._recall.is_shared(predicate):
            return partial(self._recall.once, self._sharing.predicates, self.boolean, predicate)
        return partial(self.boolean, predicate)

    def _at(self, place: tree.Expression, context: Context) -> Formula:
        if context.position is None:
            self._recall.note(_NO_POSITION)
            return UNKNOWN
        if isinstance(place, tree.Number):
            return TRUE if context.position == place.value else FALSE
        try:
            position = self._position(context)
            return _any(applied(functions.equal, position, self.number(place, context)))
        except Undecidable as reason:
            self._recall.note(reason)
            return UNKNOWN

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
            raise Undecidable(_NO_POSITION)
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


def _any(cases: Cases) -> Formula:
    return any_of([all_of((when, check(source))) for when, source in cases])


def _any_atom(hole: int, cases: Cases) -> Formula:
    if len(cases) == 1 and cases[0][0] is TRUE:
        return Atom(hole, cases[0][1])
    return any_of([all_of((when, Atom(hole, source))) for when, source in cases])


def _constant_name(function: str, node: Node | None) -> Constant:
    return _EMPTY if node is None else Constant(name_of(function, node))


_EMPTY = Constant(b"")
_NO_POSITION = "the position of a node depends on values"
