"""Typed syntax tree of a query.

`position` is the offset of a node's first character. A chain of `and`, `or` or `|` is one node, so
that limits bound the tree's height.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import attrs


class ValueType(enum.Enum):
    BOOLEAN = "boolean"
    NUMBER = "number"
    STRING = "string"
    NODE_SET = "node-set"


class Axis(enum.Enum):
    ANCESTOR = "ancestor"
    ANCESTOR_OR_SELF = "ancestor-or-self"
    ATTRIBUTE = "attribute"
    CHILD = "child"
    DESCENDANT = "descendant"
    DESCENDANT_OR_SELF = "descendant-or-self"
    FOLLOWING = "following"
    FOLLOWING_SIBLING = "following-sibling"
    NAMESPACE = "namespace"
    PARENT = "parent"
    PRECEDING = "preceding"
    PRECEDING_SIBLING = "preceding-sibling"
    SELF = "self"

    # Members are unique objects; `Enum.__hash__` hashes the name, and axes are in many keys.
    __hash__ = object.__hash__


SIBLING_AXES = frozenset({Axis.FOLLOWING_SIBLING, Axis.PRECEDING_SIBLING})
DESCENDANT_AXES = frozenset({Axis.DESCENDANT, Axis.DESCENDANT_OR_SELF})
ANCESTOR_AXES = frozenset({Axis.ANCESTOR, Axis.ANCESTOR_OR_SELF})
REVERSE_AXES = ANCESTOR_AXES | {Axis.PRECEDING, Axis.PRECEDING_SIBLING}


class PathStart(enum.Enum):
    """Start of a path that has no filter expression in front of it."""

    CONTEXT = "context"
    """The context node; outside predicates the payload's element."""

    DOCUMENT = "document"
    """The payload's document: the path begins with `/`."""

    ENVELOPE = "envelope"
    """The envelope's document: the first step is `/Mspaces:Event`."""


@attrs.frozen(slots=True)
class NameTest:
    """`a`, `p:a`, `*` or `p:*`; `local` is None for a star.

    `is_default`: the text as written has no prefix; a default namespace gave it one.
    """

    prefix: str | None
    local: str | None
    is_default: bool = attrs.field(default=False, eq=False, repr=False)

    @property
    def written(self) -> str:
        """The test as its author wrote it."""
        local = self.local or "*"
        return local if self.prefix is None or self.is_default else f"{self.prefix}:{local}"


@attrs.frozen(slots=True)
class KindTest:
    """`node()`, `text()`, `comment()` or `processing-instruction(target)`."""

    kind: str
    target: str | None = None


NodeTest: TypeAlias = NameTest | KindTest
ANY_NODE = KindTest("node")


@attrs.frozen(slots=True)
class Step:
    """One location step; `end` is the offset behind its node test."""

    position: int
    end: int
    axis: Axis
    test: NodeTest
    predicates: tuple[Expression, ...] = ()


@attrs.frozen(slots=True)
class Path:
    position: int
    start: PathStart | Expression
    steps: tuple[Step, ...]


@attrs.frozen(slots=True)
class Filter:
    """A primary expression with predicates behind it, such as `(//a)[1]`."""

    position: int
    primary: Expression
    predicates: tuple[Expression, ...]


@attrs.frozen(slots=True)
class Number:
    """A number literal; `value` is libxml2's (`number.py`)."""

    position: int
    value: float


@attrs.frozen(slots=True)
class Literal:
    position: int
    value: str


@attrs.frozen(slots=True)
class Variable:
    """A reference to an envelope variable; `name` has no dollar sign."""

    position: int
    name: str


@attrs.frozen(slots=True)
class FunctionCall:
    position: int
    name: str
    arguments: tuple[Expression, ...]


@attrs.frozen(slots=True)
class Negation:
    """One or more minus signs before an operand; the result is always a number."""

    position: int
    operand: Expression
    signs: int


@attrs.frozen(slots=True)
class Binary:
    """A comparison or an arithmetic operator; `position` is the operator's."""

    position: int
    operator: str
    left: Expression
    right: Expression


@attrs.frozen(slots=True)
class Chain:
    """Operands joined by one of `and`, `or`, `|`; `position` is the first operator's."""

    position: int
    operator: str
    operands: tuple[Expression, ...]


COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
#: Comparisons, each with the operator for exchanged operands.
MIRRORED_OPERATORS = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

Expression: TypeAlias = (
    Path | Filter | Number | Literal | Variable | FunctionCall | Negation | Binary | Chain
)


def subexpressions_of(expression: Expression) -> tuple[Expression, ...]:
    """Return the direct subexpressions; predicates are excluded, as they have their own context."""
    match expression:
        case Binary(left=left, right=right):
            return left, right
        case Chain(operands=operands):
            return operands
        case FunctionCall(arguments=arguments):
            return arguments
        case Negation(operand=operand):
            return (operand,)
        case Filter(primary=primary):
            return (primary,)
        case Path(start=start) if not isinstance(start, PathStart):
            return (start,)
        case _:
            return ()


def predicates_of(expression: Expression) -> tuple[Expression, ...]:
    """Return the predicates of a path or filter expression in order; else none."""
    match expression:
        case Filter(predicates=predicates):
            return predicates
        case Path(steps=steps):
            return tuple(predicate for step in steps for predicate in step.predicates)
        case _:
            return ()


def walk(expression: Expression) -> Iterator[Expression]:
    """Yield an expression and all its subexpressions, except those in predicates."""
    yield expression
    for each in subexpressions_of(expression):
        yield from walk(each)


def map_subexpressions(
    expression: Expression, function: Callable[[Expression], Expression]
) -> Expression:
    """Return the expression with `function` applied to its subexpressions and predicates."""
    match expression:
        case Binary(left=left, right=right):
            return attrs.evolve(expression, left=function(left), right=function(right))
        case Chain(operands=operands):
            return attrs.evolve(expression, operands=tuple(map(function, operands)))
        case FunctionCall(arguments=arguments):
            return attrs.evolve(expression, arguments=tuple(map(function, arguments)))
        case Negation(operand=operand):
            return attrs.evolve(expression, operand=function(operand))
        case Filter(primary=primary, predicates=predicates):
            predicates = tuple(map(function, predicates))
            return attrs.evolve(expression, primary=function(primary), predicates=predicates)
        case Path(start=start, steps=steps):
            steps = tuple(
                attrs.evolve(step, predicates=tuple(map(function, step.predicates)))
                for step in steps
            )
            begin = start if isinstance(start, PathStart) else function(start)
            return attrs.evolve(expression, start=begin, steps=steps)
    return expression


def is_any_descendant(step: Step) -> bool:
    """Return True for `//` in front of a step."""
    return step.axis is Axis.DESCENDANT_OR_SELF and step.test == ANY_NODE and not step.predicates


def literal_value(expression: Expression) -> str | float | None:
    """Return the value of a literal, also of a negative number; else None."""
    match expression:
        case Number(value=value) | Literal(value=value):
            return value
        case Negation(operand=Number(value=value), signs=signs):
            return -value if signs % 2 else value
        case _:
            return None
