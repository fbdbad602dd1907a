"""The partial evaluator: a template on a shape, as a formula.

Names, structure, positions and constants are decided here, once for a shape; what is left are
comparisons of slots. XPath's semantics are libxml2's, which is the oracle (DESIGN 5).
"""

from __future__ import annotations

from functools import partial
from typing import TypeAlias

from broker.matching.partial import function_library as functions
from broker.matching.partial.guarded_value import Cases, applied, check
from broker.matching.partial.comparison import compared
from broker.matching.partial.formula import (
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
from broker.matching.partial.node_set import (
    Condition,
    Context,
    Walk,
)
from broker.matching.partial.evaluation_cache import Recall
from broker.matching.partial.evaluation_input import Decision, Subjects
from broker.matching.partial.template import Template, literal_of
from broker.matching.partial.undecidable import Undecidable
from broker.matching.partial.value_evaluator import NO_POSITION, Values
from broker.matching.partial.work_budget import TooDear, Work
from broker.matching.query import tree
from broker.matching.query.tree import ValueType
from broker.matching.query.value_type import value_type

#: Nodes that are looked at for one template on one shape, or as much other work, and comparisons in
#: its formula: beyond them the template counts as undecided on the shape.
MAX_VISITS = 20_000
MAX_COMPARISONS = 2_048


#: A hole, what is compared with its literal, whether as numbers, and whether that is a node-set.
_Comparison: TypeAlias = tuple[int, tree.Expression, bool, bool]


def evaluate(template: Template, subjects: Subjects, most: int = MAX_VISITS) -> Decision:
    """Evaluate a template as far as the shape decides it, with `most` visits."""
    return _Evaluator(template, subjects, most).decision()


class _Evaluator(Values):
    def __init__(self, template: Template, subjects: Subjects, most: int) -> None:
        self._template = template
        self._subjects = subjects
        self._most = most
        self.work = Work(most)
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
            left = self._most - self.work.done
            self.work.most = self._most if place == len(parts) else self.work.done + left // 2
            try:
                formula = self._recall.once(
                    self._sharing.conjuncts, self._conjunct, part, Context(element)
                )
                found.append(formula)
            except TooDear as reason:
                self._recall.note(reason)
                found.append(UNKNOWN)
        visits = self.work.done + (sum(map(breadth, found)) >> 1)
        return Decision(all_of(found), tuple(self._recall.reasons), min(visits, self._most))

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
                if members and members[0][1] is TRUE:
                    return TRUE
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
            self._recall.note(NO_POSITION)
            return UNKNOWN
        if isinstance(place, tree.Number):
            return TRUE if context.position == place.value else FALSE
        try:
            position = self._position(context)
            return _any(applied(functions.equal, position, self.number(place, context)))
        except Undecidable as reason:
            self._recall.note(reason)
            return UNKNOWN


def _any(cases: Cases) -> Formula:
    return any_of([all_of((when, check(source))) for when, source in cases])


def _any_atom(hole: int, cases: Cases) -> Formula:
    if len(cases) == 1 and cases[0][0] is TRUE:
        return Atom(hole, cases[0][1])
    return any_of([all_of((when, Atom(hole, source))) for when, source in cases])
