"""Writes parts of a query as XPath again.

Numbers are copied from the query's text: libxml2 reads long ones in its own way.
"""

from __future__ import annotations

import re
from typing import Final

from broker.matching.query import tree
from broker.matching.query.parser import PRECEDENCE
from broker.matching.query.tree import Axis, KindTest, PathStart

_NUMBER = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]*)?")
#: Position of an expression that is not in the query's text.
NO_POSITION: Final = -1

_UNARY = max(PRECEDENCE.values()) + 1
_BINDING: Final = {**PRECEDENCE, "|": _UNARY + 1}


class XPathWriter:
    def __init__(self, text: str, *, as_written: bool = False) -> None:
        """`text` is the query's. With `as_written` names in the default namespace have no prefix;
        else the result can be parsed with the query's namespaces."""
        self._text = text
        self._as_written = as_written

    def write(self, expression: tree.Expression, binding: int = 0) -> str:
        """Write an expression, in parentheses if it binds weaker than `binding`."""
        match expression:
            case tree.Number(position=position, value=value):
                return f"{value:.0f}" if position == NO_POSITION else self._write_number(position)
            case tree.Literal(value=value):
                return f'"{value}"' if "'" in value else f"'{value}'"
            case tree.Variable(name=name):
                return f"${name}"
            case tree.FunctionCall(name=name, arguments=arguments):
                return f"{name}({', '.join(self.write(each) for each in arguments)})"
            case tree.Negation(operand=operand, signs=signs):
                return _bracketed("-" * signs + self.write(operand, _UNARY + 1), _UNARY, binding)
            case tree.Binary(operator=operator, left=left, right=right):
                own = _BINDING[operator]
                sides = f"{self.write(left, own)} {operator} {self.write(right, own + 1)}"
                return _bracketed(sides, own, binding)
            case tree.Chain(operator=operator, operands=operands):
                own = _BINDING[operator]
                joined = f" {operator} ".join(self.write(each, own + 1) for each in operands)
                return _bracketed(joined, own, binding)
            case tree.Filter(primary=primary, predicates=predicates):
                return self._write_primary(primary) + self.write_predicates(predicates)
            case tree.Path(start=start, steps=steps):
                path = self._write_path(start, steps)
                # Anything after a slash alone would be parsed as a step.
                return f"({path})" if path == "/" and binding else path

    def write_predicates(self, predicates: tuple[tree.Expression, ...]) -> str:
        return "".join(f"[{self.write(each)}]" for each in predicates)

    def _write_number(self, position: int) -> str:
        written = _NUMBER.match(self._text, position)
        assert written is not None
        return written[0]

    def _write_primary(self, expression: tree.Expression) -> str:
        if isinstance(expression, tree.FunctionCall | tree.Variable):
            return self.write(expression)
        return f"({self.write(expression)})"

    def _write_path(self, start: PathStart | tree.Expression, steps: tuple[tree.Step, ...]) -> str:
        if not isinstance(start, PathStart):
            before = (
                self.write(start) if isinstance(start, tree.Filter) else self._write_primary(start)
            )
            return before + self._write_steps(steps, "/")
        if start is PathStart.CONTEXT:
            return self._write_steps(steps, "") if steps else "."
        return self._write_steps(steps, "/") if steps else "/"

    def _write_steps(self, steps: tuple[tree.Step, ...], slash: str) -> str:
        written = []
        place = 0
        while place < len(steps):
            step = steps[place]
            if tree.is_any_descendant(step) and place + 1 < len(steps) and (slash or place):
                written.append("//")
                place += 1
                step = steps[place]
                # `///` would be a different path, so the second one is written out.
                if tree.is_any_descendant(step):
                    written.append(self._write_step(step))
                    place += 1
                    continue
            else:
                written.append("/" if place else slash)
            written.append(self._write_step(step))
            place += 1
        return "".join(written)

    def _write_step(self, step: tree.Step) -> str:
        if step.test == tree.ANY_NODE and not step.predicates:
            if step.axis is Axis.SELF:
                return "."
            if step.axis is Axis.PARENT:
                return ".."
        axis = {Axis.CHILD: "", Axis.ATTRIBUTE: "@"}.get(step.axis, f"{step.axis.value}::")
        return f"{axis}{self._write_test(step.test)}{self.write_predicates(step.predicates)}"

    def _write_test(self, test: tree.NodeTest) -> str:
        if isinstance(test, KindTest):
            target = test.target
            if target is None:
                return f"{test.kind}()"
            quote = '"' if "'" in target else "'"
            return f"{test.kind}({quote}{target}{quote})"
        if self._as_written:
            return test.written
        local = "*" if test.local is None else test.local
        return local if test.prefix is None else f"{test.prefix}:{local}"


def _bracketed(text: str, own: int, binding: int) -> str:
    return f"({text})" if own < binding else text
