"""Derivation of a query's requirements: a necessary condition, sometimes exact."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import attrs

from broker.matching.paths.abstract_node import AbstractNode
from broker.matching.paths.emptiness import outermost_node_sets, texts_if_empty, truth_if_empty
from broker.matching.paths.pattern import (
    ALWAYS,
    NEVER,
    UNKNOWN,
    DocumentRole,
    LabelKind,
    PatternStep,
    Requirements,
    require_both,
    require_either,
)
from broker.matching.query import tree
from broker.matching.query.namespaces import PREDEFINED_PREFIXES
from broker.matching.query.value_type import value_type

#: Outside predicates the context is the payload's element, with any name.
_OUTERMOST_CONTEXT = AbstractNode(DocumentRole.PAYLOAD, (PatternStep(False, LabelKind.ELEMENT),))


def derive_from_expression(
    expression: tree.Expression, namespaces: Mapping[str, str]
) -> Requirements:
    """Return the patterns that a matching document must have (F2)."""
    return _Derivation({**namespaces, **PREDEFINED_PREFIXES}).derive(expression, _OUTERMOST_CONTEXT)


class _Derivation:
    def __init__(self, namespaces: Mapping[str, str]) -> None:
        self._namespaces = namespaces

    def derive(self, expression: tree.Expression, context: AbstractNode) -> Requirements:
        if value_type(expression) is tree.ValueType.NODE_SET:
            return self._require_non_empty(expression, context)
        match expression:
            case tree.Chain(operator=joint, operands=operands):
                join = require_both if joint == "and" else require_either
                return reduce(join, (self.derive(each, context) for each in operands))
            case tree.FunctionCall(name="boolean", arguments=(argument,)):
                return self.derive(argument, context)
        constant = truth_if_empty(expression)
        if constant is not None:
            return ALWAYS if constant else NEVER
        result = UNKNOWN
        for node_set in outermost_node_sets(expression):
            if truth_if_empty(expression, node_set) is False:
                result = require_both(result, self._require_non_empty(node_set, context))
        return result

    def _require_non_empty(self, node_set: tree.Expression, context: AbstractNode) -> Requirements:
        ends = self._end_nodes(node_set, context)
        return reduce(require_either, (end.existence_requirements() for end in ends), NEVER)

    def _end_nodes(self, node_set: tree.Expression, context: AbstractNode) -> list[AbstractNode]:
        match node_set:
            case tree.Chain(operands=operands):
                return [end for each in operands for end in self._end_nodes(each, context)]
            case tree.Filter(primary=primary, predicates=predicates):
                return [
                    self._apply_predicates(end, predicates, context)
                    for end in self._end_nodes(primary, context)
                ]
            case tree.Path(start=start, steps=steps):
                ends = self._start_nodes(start, context)
                for step in steps:
                    ends = [
                        self._apply_predicates(end, step.predicates, context)
                        for here in ends
                        if (end := here.follow_step(step, self._namespaces)) is not None
                    ]
                return ends
        # The result of id() depends on a DTD and on the searched document.
        return [AbstractNode(context.document, exact=False, is_unknown=True)]

    def _start_nodes(
        self, start: tree.PathStart | tree.Expression, context: AbstractNode
    ) -> list[AbstractNode]:
        match start:
            case tree.PathStart.CONTEXT:
                return [context.as_context()]
            case tree.PathStart.DOCUMENT:
                return [AbstractNode(DocumentRole.PAYLOAD)]
            case tree.PathStart.ENVELOPE:
                return [AbstractNode(DocumentRole.ENVELOPE)]
        return self._end_nodes(start, context)

    def _apply_predicates(
        self, end: AbstractNode, predicates: tuple[tree.Expression, ...], context: AbstractNode
    ) -> AbstractNode:
        if end.is_unknown:
            return end
        exact = (
            len(predicates) == 1 and end.required == ALWAYS and _is_decided_by_labels(predicates[0])
        )
        for predicate in predicates:
            if value_type(predicate) is tree.ValueType.NUMBER:
                needs = UNKNOWN
            else:
                needs = self.derive(predicate, end.as_context())
            end = end.with_requirement(needs, exact=exact and needs.exact)
        return end


def _is_decided_by_labels(predicate: tree.Expression) -> bool:
    """Return True if the predicate only tests nodes below the context for existence."""
    match predicate:
        case tree.Path(start=start):
            return start is tree.PathStart.CONTEXT
        case tree.Chain(operator="or" | "|", operands=operands):
            return all(map(_is_decided_by_labels, operands))
        case tree.FunctionCall(name="boolean", arguments=(argument,)):
            return _is_decided_by_labels(argument)
    return False


_ANY_TEXT, _ANY_NUMBER = "ClientId", "TimeStamp"


def abstract_literals(
    expression: tree.Expression, parameter_at: Mapping[int, int]
) -> tree.Expression:
    """Replace each literal that influences the requirements by a variable.

    A text literal stays if only its emptiness matters, because templates distinguish that.
    """

    def rewrite(expression: tree.Expression) -> tree.Expression:
        each = tree.map_subexpressions(expression, rewrite)
        if isinstance(each, tree.Binary) and each.position in parameter_at:
            if tree.literal_value(each.left) is not None:
                left = _abstract_operand(each.operator, each.right, each.left)
                return attrs.evolve(each, left=left)
            right = _abstract_operand(each.operator, each.left, each.right)
            return attrs.evolve(each, right=right)
        if isinstance(each, tree.FunctionCall) and each.position in parameter_at:
            subject, literal = each.arguments
            if _is_decisive(subject):
                return attrs.evolve(each, arguments=(subject, _unknown_value(literal)))
        return each

    return rewrite(expression)


def _abstract_operand(
    operator: str, subject: tree.Expression, literal: tree.Expression
) -> tree.Expression:
    textual = isinstance(literal, tree.Literal) and operator in ("=", "!=")
    if textual and value_type(subject) is tree.ValueType.STRING and not _is_decisive(subject):
        return literal
    return _unknown_value(literal)


def _is_decisive(subject: tree.Expression) -> bool:
    texts = (texts_if_empty(subject, each) for each in (None, *outermost_node_sets(subject)))
    return any(each is not None and each != frozenset({""}) for each in texts)


def _unknown_value(literal: tree.Expression) -> tree.Expression:
    kind = _ANY_TEXT if isinstance(literal, tree.Literal) else _ANY_NUMBER
    return tree.Variable(literal.position, kind)
