"""Why an event matches a query or does not: part by part, as a person would look (checklist N7).

Of an `and` the first condition that fails is named. A path that finds nothing is followed to the
step where the last node is lost: either the event has no such node, or a predicate refuses each of
them; then the predicate is looked at for those that got furthest.
"""

from __future__ import annotations

from typing import Final

import attrs

from broker.matching.explaining.access import shown
from broker.matching.explaining.explanation import Finding, Found
from broker.matching.explaining.narrowing import Lost, Narrowing
from broker.matching.explaining.probing import Probe, TooMuch, nth
from broker.matching.explaining.rebasing import rebased
from broker.matching.explaining.wording import Wording
from broker.matching.query import tree
from broker.matching.query.number import number_of
from broker.matching.query.tree import ValueType
from broker.matching.query.value_type import value_type

#: Findings of one explanation: parts beyond them are not looked at.
MAX_FINDINGS: Final = 150
#: Nodes refused by a predicate that are looked at one by one.
MAX_NODES: Final = 3
#: Characters of a part that are shown.
MAX_PART: Final = 400

_ORDERS: Final = frozenset({"<", "<=", ">", ">="})
_TEXT_TESTS: Final = frozenset({"starts-with", "contains"})
_NOT_LOOKED_AT: Final = "not looked at: it would take too long"


class Findings:
    """Finds out about one event."""

    def __init__(self, text: str, probe: Probe) -> None:
        self._wording = Wording(text, for_lxml=False)
        self._probe = probe
        self._narrowing = Narrowing(probe, self._wording)
        self._left = MAX_FINDINGS

    def of(self, expression: tree.Expression, node: tree.Expression | None = None) -> Finding:
        """What an expression comes to, asked of `node` (a node-set of one) or of the event."""
        part = self._part(expression)
        self._left -= 1
        if self._left < 0:
            return Finding(part, None, note=_NOT_LOOKED_AT)
        closed = expression if node is None else rebased(expression, node)
        if closed is None:
            return Finding(part, None, note="it depends on the place among the others")
        holds = None
        try:
            holds = self._probe.holds(closed)
            finding = attrs.evolve(self._found(expression, closed, holds, node), part=part)
            return finding if node is None else attrs.evolve(finding, at=self._probe.path(node))
        except TooMuch as bound:
            return Finding(part, holds, note=str(bound) or _NOT_LOOKED_AT)

    def _found(
        self,
        expression: tree.Expression,
        closed: tree.Expression,
        holds: bool,
        node: tree.Expression | None,
    ) -> Finding:
        """`closed` is the expression as the event can be asked for it."""
        match expression:
            case tree.Chain(operator="and" | "or" as operator, operands=operands):
                return self._chain(operator, operands, holds, node)
            case tree.FunctionCall(name="not" | "boolean", arguments=(inner,)):
                return Finding("", holds, parts=(self.of(inner, node),))
        match closed:
            case tree.Binary() if value_type(closed) is ValueType.BOOLEAN:
                return self._comparison(expression, closed, holds, node)
            case tree.FunctionCall(name=name, arguments=(subject, wanted)) if name in _TEXT_TESTS:
                value = Found("", shown(self._probe.text(subject)), holds)
                if value_type(subject) is ValueType.NODE_SET:
                    value = self._first(subject, holds) or value
                literal = self._literal(wanted)
                return Finding("", holds, operator=name, literal=literal, values=(value,))
            case tree.Chain(operands=operands):
                return Finding("", holds, parts=tuple(self.of(each, node) for each in operands))
            case tree.Path() | tree.Filter():
                return self._nodes(closed, holds)
        if value_type(closed) is ValueType.BOOLEAN:
            return Finding("", holds)
        return Finding("", holds, values=(Found("", shown(self._probe.text(closed))),))

    # ---------------------------------------------------------------- and, or

    def _chain(
        self,
        operator: str,
        operands: tuple[tree.Expression, ...],
        holds: bool,
        node: tree.Expression | None,
    ) -> Finding:
        parts = tuple(self.of(operand, node) for operand in operands)
        note = ""
        if operator == "and" and not holds:
            first = next((part for part in parts if part.holds is False), None)
            note = "" if first is None else f"the first condition that fails: {first.part}"
        return Finding("", holds, note=note, parts=parts)

    # ---------------------------------------------------------------- comparisons

    def _comparison(
        self,
        expression: tree.Expression,
        closed: tree.Binary,
        holds: bool,
        node: tree.Expression | None,
    ) -> Finding:
        sides = (closed.left, closed.right)
        kinds = [value_type(side) for side in sides]
        if ValueType.BOOLEAN in kinds and isinstance(expression, tree.Binary):
            parts = (self.of(expression.left, node), self.of(expression.right, node))
            return Finding("", holds, operator=closed.operator, parts=parts)
        values: list[Found] = []
        more, note, missing = 0, "", []
        literal = next((self._literal(s) for s in sides if _is_literal(s)), "")
        for side, kind in zip(sides, kinds, strict=True):
            if _is_literal(side):
                continue
            if kind is not ValueType.NODE_SET:
                alone = any(map(_is_literal, sides))
                text = shown(self._probe.text(side))
                name = self._part(side) if isinstance(side, tree.Variable) else ""
                values.append(Found(name, text, holds if alone else None))
                continue
            count = self._probe.count(side)
            if not count:
                missing.append(self._narrowing.why_empty(side))
                continue
            members = self._probe.found(side)
            more += max(0, count - len(members))
            values += self._judged(members, side, closed)
        if missing:
            bare = Finding("", holds, operator=closed.operator, literal=literal)
            return self._empty(missing[0], bare)
        if closed.operator in _ORDERS or ValueType.NUMBER in kinds:
            note = _not_numbers(values)
        return Finding(
            "",
            holds,
            operator=closed.operator,
            literal=literal,
            values=tuple(values),
            more=more,
            note=note,
        )

    def _judged(
        self, members: list[Found], side: tree.Expression, closed: tree.Binary
    ) -> list[Found]:
        """With whether the comparison holds for each, where the other side is one value."""
        other = closed.right if side is closed.left else closed.left
        if value_type(other) is ValueType.NODE_SET:
            return members
        judged = []
        for number, member in enumerate(members, 1):
            one = nth(side, number)
            left, right = (one, other) if side is closed.left else (other, one)
            holds = self._probe.holds(attrs.evolve(closed, left=left, right=right))
            judged.append(attrs.evolve(member, holds=holds))
        return judged

    # ---------------------------------------------------------------- node-sets

    def _nodes(self, closed: tree.Path | tree.Filter, holds: bool) -> Finding:
        if not holds:
            return self._empty(self._narrowing.why_empty(closed), Finding("", holds))
        members = self._probe.found(closed)
        more = self._probe.count(closed) - len(members)
        parts = [
            self.of(condition, node) for node, condition in self._narrowing.conditions_of(closed)
        ]
        return Finding("", holds, values=tuple(members), more=max(0, more), parts=tuple(parts))

    def _empty(self, lost: Lost, finding: Finding) -> Finding:
        """Why a node-set is empty: what is missing, or which predicate refuses its nodes."""
        parts: tuple[Finding, ...] = ()
        refused = lost.refused
        if refused is not None:
            parts = tuple(
                self.of(refused.condition, nth(refused.nodes, number))
                for number in range(1, min(refused.count, MAX_NODES) + 1)
            )
        return attrs.evolve(finding, note=lost.note, parts=parts)

    def _first(self, nodes: tree.Expression, holds: bool) -> Found | None:
        members = self._probe.found(nodes)
        return attrs.evolve(members[0], holds=holds) if members else None

    # ---------------------------------------------------------------- words

    def _part(self, expression: tree.Expression) -> str:
        return self._wording.of(expression)[:MAX_PART]

    def _literal(self, expression: tree.Expression) -> str:
        return shown(self._wording.of(expression))


def _is_literal(expression: tree.Expression) -> bool:
    if isinstance(expression, tree.Negation):
        return _is_literal(expression.operand)
    return isinstance(expression, tree.Number | tree.Literal)


def _not_numbers(values: list[Found]) -> str:
    wrong = [each.value for each in values if number_of(each.value) != number_of(each.value)]
    return f"{wrong[0]!r} is no number" if wrong else ""
