"""Canonical texts: equal for expressions that differ only in writing."""

from __future__ import annotations

from collections.abc import Mapping

from broker.matching.query import tree

_SYMMETRIC = frozenset({"=", "!=", "and", "or", "|"})


def canonical_text(expression: tree.Expression, namespaces: Mapping[str, str]) -> str:
    """Return a text in parentheses, with resolved prefixes and sorted symmetric operands."""

    def of(each: tree.Expression) -> str:
        return canonical_text(each, namespaces)

    match expression:
        case tree.Path(start=start, steps=steps):
            begin = start.value if isinstance(start, tree.PathStart) else of(start)
            return f"(path {' '.join([begin, *(canonical_step(s, namespaces) for s in steps)])})"
        case tree.Filter(primary=primary, predicates=predicates):
            return f"(filter {' '.join(map(of, (primary, *predicates)))})"
        case tree.Number(value=number):
            return repr(number)
        case tree.Literal(value=text):
            return repr(text)
        case tree.Variable(name=name):
            return f"${name}"
        case tree.FunctionCall(name=name, arguments=arguments):
            return f"({' '.join([name, *map(of, arguments)])})"
        case tree.Negation(operand=operand, signs=signs):
            return f"({'negative' if signs % 2 else 'number'} {of(operand)})"
        case tree.Binary(operator=sign, left=left, right=right):
            return _joined(sign, [of(left), of(right)])
        case tree.Chain(operator=sign, operands=operands):
            return _joined(sign, list(map(of, operands)))


def canonical_step(step: tree.Step, namespaces: Mapping[str, str]) -> str:
    predicates = "".join(f"[{canonical_text(each, namespaces)}]" for each in step.predicates)
    return f"{step.axis.value}::{_test_text(step.test, namespaces)}{predicates}"


def _joined(sign: str, operands: list[str]) -> str:
    return f"({' '.join([sign, *(sorted(operands) if sign in _SYMMETRIC else operands)])})"


def _test_text(test: tree.NodeTest, namespaces: Mapping[str, str]) -> str:
    if isinstance(test, tree.KindTest):
        return f"{test.kind}({'' if test.target is None else repr(test.target)})"
    if test.prefix is not None:
        return f"{{{namespaces[test.prefix]}}}{test.local or '*'}"
    return test.local or "*"
