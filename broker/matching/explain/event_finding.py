"""Findings: why an event matches a query or not, part by part (checklist N7).

For a path without a result the analysis finds the step that loses the last node. If a predicate
rejects all nodes, it is explained for those that pass most of it.
"""

from __future__ import annotations

from typing import Final

import attrs

from broker.matching.explain.access_method import truncate
from broker.matching.explain.empty_path import EmptyPathAnalysis, EmptyReason
from broker.matching.explain.explanation import Finding, FoundValue
from broker.matching.explain.probe import Probe, ProbeLimitExceeded, nth_node, rebase
from broker.matching.explain.xpath_writer import XPathWriter
from broker.matching.query import tree
from broker.matching.query.number import parse_number
from broker.matching.query.tree import ValueType
from broker.matching.query.value_type import value_type

#: Findings of one explanation. Further parts are not examined.
MAX_FINDINGS: Final = 150
#: Nodes rejected by a predicate that are explained one by one.
MAX_NODES: Final = 3
#: Characters shown of a part.
MAX_PART: Final = 400

_ORDERS: Final = frozenset({"<", "<=", ">", ">="})
_TEXT_TESTS: Final = frozenset({"starts-with", "contains"})
_NOT_EXAMINED: Final = "not examined: it would take too long"


class EventFindings:
    def __init__(self, text: str, probe: Probe) -> None:
        self._writer = XPathWriter(text, for_lxml=False)
        self._probe = probe
        self._empty_paths = EmptyPathAnalysis(probe, self._writer)
        self._left = MAX_FINDINGS

    def explain_expression(
        self, expression: tree.Expression, node: tree.Expression | None = None
    ) -> Finding:
        """Explain an expression, at `node` (a node-set of one) or on the event."""
        part = self._format_part(expression)
        self._left -= 1
        if self._left < 0:
            return Finding(part, None, note=_NOT_EXAMINED)
        closed = expression if node is None else rebase(expression, node)
        if closed is None:
            return Finding(part, None, note="it depends on the position among other nodes")
        holds = None
        try:
            holds = self._probe.evaluate_boolean(closed)
            finding = attrs.evolve(self._explain(expression, closed, holds, node), part=part)
            return (
                finding if node is None else attrs.evolve(finding, at=self._probe.locate_node(node))
            )
        except ProbeLimitExceeded as bound:
            return Finding(part, holds, note=str(bound) or _NOT_EXAMINED)

    def _explain(
        self,
        expression: tree.Expression,
        closed: tree.Expression,
        holds: bool,
        node: tree.Expression | None,
    ) -> Finding:
        """`closed` is the expression in a form that can be evaluated on the whole event."""
        match expression:
            case tree.Chain(operator="and" | "or" as operator, operands=operands):
                return self._explain_chain(operator, operands, holds, node)
            case tree.FunctionCall(name="not" | "boolean", arguments=(inner,)):
                return Finding("", holds, parts=(self.explain_expression(inner, node),))
        match closed:
            case tree.Binary() if value_type(closed) is ValueType.BOOLEAN:
                return self._explain_comparison(expression, closed, holds, node)
            case tree.FunctionCall(name=name, arguments=(subject, wanted)) if name in _TEXT_TESTS:
                value = FoundValue("", truncate(self._probe.evaluate_string(subject)), holds)
                if value_type(subject) is ValueType.NODE_SET:
                    value = self._first_value(subject, holds) or value
                literal = self._format_literal(wanted)
                return Finding("", holds, operator=name, literal=literal, values=(value,))
            case tree.Chain(operands=operands):
                return Finding(
                    "", holds, parts=tuple(self.explain_expression(each, node) for each in operands)
                )
            case tree.Path() | tree.Filter():
                return self._explain_nodes(closed, holds)
        if value_type(closed) is ValueType.BOOLEAN:
            return Finding("", holds)
        return Finding(
            "", holds, values=(FoundValue("", truncate(self._probe.evaluate_string(closed))),)
        )

    def _explain_chain(
        self,
        operator: str,
        operands: tuple[tree.Expression, ...],
        holds: bool,
        node: tree.Expression | None,
    ) -> Finding:
        parts = tuple(self.explain_expression(operand, node) for operand in operands)
        note = ""
        if operator == "and" and not holds:
            first = next((part for part in parts if part.holds is False), None)
            note = "" if first is None else f"the first condition that fails: {first.part}"
        return Finding("", holds, note=note, parts=parts)

    def _explain_comparison(
        self,
        expression: tree.Expression,
        closed: tree.Binary,
        holds: bool,
        node: tree.Expression | None,
    ) -> Finding:
        sides = (closed.left, closed.right)
        kinds = [value_type(side) for side in sides]
        if ValueType.BOOLEAN in kinds and isinstance(expression, tree.Binary):
            parts = (
                self.explain_expression(expression.left, node),
                self.explain_expression(expression.right, node),
            )
            return Finding("", holds, operator=closed.operator, parts=parts)
        values: list[FoundValue] = []
        more, note, missing = 0, "", []
        literal = next((self._format_literal(s) for s in sides if _is_literal(s)), "")
        for side, kind in zip(sides, kinds, strict=True):
            if _is_literal(side):
                continue
            if kind is not ValueType.NODE_SET:
                alone = any(map(_is_literal, sides))
                text = truncate(self._probe.evaluate_string(side))
                name = self._format_part(side) if isinstance(side, tree.Variable) else ""
                values.append(FoundValue(name, text, holds if alone else None))
                continue
            count = self._probe.count_nodes(side)
            if not count:
                missing.append(self._empty_paths.find_reason(side))
                continue
            members = self._probe.list_values(side)
            more += max(0, count - len(members))
            values += self._judge_values(members, side, closed)
        if missing:
            bare = Finding("", holds, operator=closed.operator, literal=literal)
            return self._explain_empty(missing[0], bare)
        if closed.operator in _ORDERS or ValueType.NUMBER in kinds:
            note = _note_non_numbers(values)
        return Finding(
            "",
            holds,
            operator=closed.operator,
            literal=literal,
            values=tuple(values),
            more=more,
            note=note,
        )

    def _judge_values(
        self, members: list[FoundValue], side: tree.Expression, closed: tree.Binary
    ) -> list[FoundValue]:
        """Add the result of the comparison for each value, if the other side is a single value."""
        other = closed.right if side is closed.left else closed.left
        if value_type(other) is ValueType.NODE_SET:
            return members
        judged = []
        for number, member in enumerate(members, 1):
            one = nth_node(side, number)
            left, right = (one, other) if side is closed.left else (other, one)
            holds = self._probe.evaluate_boolean(attrs.evolve(closed, left=left, right=right))
            judged.append(attrs.evolve(member, holds=holds))
        return judged

    def _explain_nodes(self, closed: tree.Path | tree.Filter, holds: bool) -> Finding:
        if not holds:
            return self._explain_empty(self._empty_paths.find_reason(closed), Finding("", holds))
        members = self._probe.list_values(closed)
        more = self._probe.count_nodes(closed) - len(members)
        parts = [
            self.explain_expression(condition, node)
            for node, condition in self._empty_paths.iterate_conditions(closed)
        ]
        return Finding("", holds, values=tuple(members), more=max(0, more), parts=tuple(parts))

    def _explain_empty(self, reason: EmptyReason, finding: Finding) -> Finding:
        parts: tuple[Finding, ...] = ()
        rejected = reason.rejected
        if rejected is not None:
            parts = tuple(
                self.explain_expression(rejected.condition, nth_node(rejected.nodes, number))
                for number in range(1, min(rejected.count, MAX_NODES) + 1)
            )
        return attrs.evolve(finding, note=reason.note, parts=parts)

    def _first_value(self, nodes: tree.Expression, holds: bool) -> FoundValue | None:
        members = self._probe.list_values(nodes)
        return attrs.evolve(members[0], holds=holds) if members else None

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
