"""Canonical texts: equal for expressions that differ only in writing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from broker.matching.query.tree import (
    Binary,
    Chain,
    Expression,
    Filter,
    FunctionCall,
    KindTest,
    Literal,
    Negation,
    NodeTest,
    Number,
    Path,
    PathStart,
    Step,
    ValueType,
    Variable,
)
from broker.matching.query.value_type import value_type

_SYMMETRIC = frozenset({"=", "!=", "and", "or", "|"})


def canonical_text(expression: Expression, namespaces: Mapping[str, str]) -> str:
    """Return a text in parentheses, with resolved prefixes and sorted symmetric operands."""

    def of(each: Expression) -> str:
        return canonical_text(each, namespaces)

    match expression:
        case Path(start=start, steps=steps):
            begin = start.value if isinstance(start, PathStart) else of(start)
            return f"(path {' '.join([begin, *(canonical_step(s, namespaces) for s in steps)])})"
        case Filter(primary=primary, predicates=predicates):
            return f"(filter {' '.join(map(of, (primary, *predicates)))})"
        case Number(value=number):
            return repr(number)
        case Literal(value=text):
            return repr(text)
        case Variable(name=name):
            return f"${name}"
        case FunctionCall(name=name, arguments=arguments):
            return f"({' '.join([name, *map(of, arguments)])})"
        case Negation(operand=operand, signs=signs):
            return f"({'negative' if signs % 2 else 'number'} {of(operand)})"
        case Binary(operator=sign, left=left, right=right):
            return _joined(sign, [of(left), of(right)])
        case Chain(operator=sign, operands=operands):
            return _joined(sign, list(map(of, operands)))


def canonical_step(step: Step, namespaces: Mapping[str, str]) -> str:
    predicates = "".join(f"[{canonical_text(each, namespaces)}]" for each in step.predicates)
    return f"{step.axis.value}::{_test_text(step.test, namespaces)}{predicates}"


def depends_on_position(predicate: Expression) -> bool:
    """True if a predicate depends on the position of a node."""
    return value_type(predicate) is ValueType.NUMBER or any(
        isinstance(each, FunctionCall) and each.name in ("position", "last")
        for each in _in_context(predicate)
    )


def _in_context(expression: Expression) -> Iterator[Expression]:
    yield expression
    match expression:
        case Binary(left=left, right=right):
            inner: tuple[Expression, ...] = (left, right)
        case Chain(operands=inner) | FunctionCall(arguments=inner):
            pass
        case Negation(operand=operand):
            inner = (operand,)
        case Filter(primary=primary):
            inner = (primary,)
        case Path(start=start) if not isinstance(start, PathStart):
            inner = (start,)
        case _:
            return
    for each in inner:
        yield from _in_context(each)


def _joined(sign: str, operands: list[str]) -> str:
    return f"({' '.join([sign, *(sorted(operands) if sign in _SYMMETRIC else operands)])})"


def _test_text(test: NodeTest, namespaces: Mapping[str, str]) -> str:
    if isinstance(test, KindTest):
        return f"{test.kind}({'' if test.target is None else repr(test.target)})"
    if test.prefix is not None:
        return f"{{{namespaces[test.prefix]}}}{test.local or '*'}"
    return test.local or "*"
