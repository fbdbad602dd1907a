"""Findings: why an event matches a query or not, part by part (checklist N7).

For a path without a result they name the step that loses the last node, or the predicate.
"""

from __future__ import annotations

from typing import Final

import attrs

from broker.matching.explain.access_method import truncate
from broker.matching.explain.empty_path import EmptyPathAnalysis, EmptyReason
from broker.matching.explain.explanation import Finding, FoundValue
from broker.matching.explain.probe import MAX_VALUES, Probe, ProbeLimitExceeded
from broker.matching.explain.xpath_writer import NO_POSITION, XPathWriter
from broker.matching.query import tree
from broker.matching.query.number import parse_number
from broker.matching.query.tree import PathStart, ValueType
from broker.matching.query.value_type import value_type
from broker.matching.shape.tree import Node

#: Findings of one explanation. Further parts are not examined.
MAX_FINDINGS: Final = 150
#: Nodes rejected by a predicate that are explained one by one.
MAX_NODES: Final = 3
#: Characters shown of a part.
MAX_PART: Final = 400

_ORDERS: Final = frozenset({"<", "<=", ">", ">="})
_TEXT_TESTS: Final = frozenset({"starts-with", "contains"})
#: Functions that depend on the predicate's own node-set or on the document of its node.
_BOUND: Final = frozenset({"position", "last", "id", "lang"})
_SELF: Final = tree.Path(NO_POSITION, PathStart.CONTEXT, ())
_NOT_EXAMINED: Final = "not examined: it would take too long"


class EventFindings:
    def __init__(self, text: str, probe: Probe) -> None:
        self._writer = XPathWriter(text, as_written=True)
        self._probe = probe
        self._empty_paths = EmptyPathAnalysis(probe, self._writer)
        self._left = MAX_FINDINGS

    def explain_expression(
        self, expression: tree.Expression, node: Node | None = None, holds: bool | None = None
    ) -> Finding:
        """Explain an expression at `node` or on the event, with its value if that is known."""
        part = self._format_part(expression)
        self._left -= 1
        if self._left < 0:
            return Finding(part, None, note=_NOT_EXAMINED)
        if node is not None and any(
            isinstance(each, tree.FunctionCall) and each.name in _BOUND
            for each in tree.walk(expression)
        ):
            return Finding(part, None, note="it depends on the position among other nodes")
        try:
            if holds is None:
                holds = self._probe.evaluate_boolean(expression, node)
            at = "" if node is None else self._probe.locate_node(node)
            return attrs.evolve(self._explain(expression, holds, node), part=part, at=at)
        except ProbeLimitExceeded as bound:
            return Finding(part, holds, note=str(bound) or _NOT_EXAMINED)

    def _explain(self, expression: tree.Expression, holds: bool, node: Node | None) -> Finding:
        match expression:
            case tree.Chain(operator="and" | "or" as operator, operands=operands):
                return self._explain_chain(operator, operands, holds, node)
            case tree.FunctionCall(name="not" | "boolean", arguments=(inner,)):
                return Finding("", holds, parts=(self.explain_expression(inner, node),))
            case tree.Binary() if value_type(expression) is ValueType.BOOLEAN:
                return self._explain_comparison(expression, holds, node)
            case tree.FunctionCall(name=name, arguments=(subject, wanted)) if name in _TEXT_TESTS:
                value = FoundValue("", truncate(self._probe.evaluate_string(subject, node)))
                if value_type(subject) is ValueType.NODE_SET:
                    first = self._probe.list_nodes(subject, node)[:1]
                    value = self._probe.show_node(first[0]) if first else value
                value = attrs.evolve(value, holds=holds)
                literal = self._format_literal(wanted)
                return Finding("", holds, operator=name, literal=literal, values=(value,))
            case tree.Chain(operands=operands):
                return Finding(
                    "", holds, parts=tuple(self.explain_expression(each, node) for each in operands)
                )
            case tree.Path() | tree.Filter():
                return self._explain_nodes(expression, holds, node)
        if value_type(expression) is ValueType.BOOLEAN:
            return Finding("", holds)
        value = FoundValue("", truncate(self._probe.evaluate_string(expression, node)))
        return Finding("", holds, values=(value,))

    def _explain_chain(
        self,
        operator: str,
        operands: tuple[tree.Expression, ...],
        holds: bool,
        node: Node | None,
    ) -> Finding:
        parts = tuple(self.explain_expression(operand, node) for operand in operands)
        note = ""
        if operator == "and" and not holds:
            first = next((part for part in parts if part.holds is False), None)
            note = "" if first is None else f"the first condition that fails: {first.part}"
        return Finding("", holds, note=note, parts=parts)

    def _explain_comparison(
        self, expression: tree.Binary, holds: bool, node: Node | None
    ) -> Finding:
        sides = (expression.left, expression.right)
        kinds = [value_type(side) for side in sides]
        if ValueType.BOOLEAN in kinds:
            parts = tuple(self.explain_expression(side, node) for side in sides)
            return Finding("", holds, operator=expression.operator, parts=parts)
        values: list[FoundValue] = []
        more, note, missing = 0, "", []
        literal = next((self._format_literal(s) for s in sides if _is_literal(s)), "")
        for side, kind in zip(sides, kinds, strict=True):
            if _is_literal(side):
                continue
            if kind is not ValueType.NODE_SET:
                alone = any(map(_is_literal, sides))
                text = truncate(self._probe.evaluate_string(side, node))
                name = self._format_part(side) if isinstance(side, tree.Variable) else ""
                values.append(FoundValue(name, text, holds if alone else None))
                continue
            members = self._probe.list_nodes(side, node)
            if not members:
                missing.append(self._empty_paths.find_reason(side, node))
                continue
            more += max(0, len(members) - MAX_VALUES)
            values += self._judge_values(members[:MAX_VALUES], side, expression, node)
        if missing:
            bare = Finding("", holds, operator=expression.operator, literal=literal)
            return self._explain_empty(missing[0], bare)
        if expression.operator in _ORDERS or ValueType.NUMBER in kinds:
            note = _note_non_numbers(values)
        return Finding(
            "",
            holds,
            operator=expression.operator,
            literal=literal,
            values=tuple(values),
            more=more,
            note=note,
        )

    def _judge_values(
        self,
        members: list[Node],
        side: tree.Expression,
        comparison: tree.Binary,
        node: Node | None,
    ) -> list[FoundValue]:
        """Return the values, with the result of each if the other side is a single value."""
        shown = list(map(self._probe.show_node, members))
        other = comparison.right if side is comparison.left else comparison.left
        if value_type(other) is ValueType.NODE_SET:
            return shown
        literal = self._probe.evaluate_literal(other, node)
        left, right = (_SELF, literal) if side is comparison.left else (literal, _SELF)
        one = attrs.evolve(comparison, left=left, right=right)
        return [
            attrs.evolve(value, holds=self._probe.evaluate_boolean(one, member))
            for value, member in zip(shown, members, strict=True)
        ]

    def _explain_nodes(
        self, expression: tree.Path | tree.Filter, holds: bool, node: Node | None
    ) -> Finding:
        if not holds:
            reason = self._empty_paths.find_reason(expression, node)
            return self._explain_empty(reason, Finding("", holds))
        members = self._probe.list_nodes(expression, node)
        parts = [
            self.explain_expression(condition, each)
            for each, condition in self._empty_paths.iterate_conditions(expression, node)
        ]
        values = tuple(map(self._probe.show_node, members[:MAX_VALUES]))
        more = max(0, len(members) - MAX_VALUES)
        return Finding("", holds, values=values, more=more, parts=tuple(parts))

    def _explain_empty(self, reason: EmptyReason, finding: Finding) -> Finding:
        parts: tuple[Finding, ...] = ()
        if reason.condition is not None:
            parts = tuple(
                self.explain_expression(reason.condition, each)
                for each in reason.rejected[:MAX_NODES]
            )
        return attrs.evolve(finding, note=reason.note, parts=parts)

    def _format_part(self, expression: tree.Expression) -> str:
        return self._writer.write(expression)[:MAX_PART]

    def _format_literal(self, expression: tree.Expression) -> str:
        return truncate(self._writer.write(expression))


def _is_literal(expression: tree.Expression) -> bool:
    if isinstance(expression, tree.Negation):
        return _is_literal(expression.operand)
    return isinstance(expression, tree.Number | tree.Literal)


def _note_non_numbers(values: list[FoundValue]) -> str:
    wrong = [each.value for each in values if parse_number(each.value) != parse_number(each.value)]
    return f"{wrong[0]!r} is not a number" if wrong else ""
