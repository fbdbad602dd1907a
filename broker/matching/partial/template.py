"""Templates: what queries have in common when only the literals of their comparisons differ (F5).

`/flight[id = "UAL1"]` and `/flight['DAL2' = id]` share a template with one hole, whose literals are
`UAL1` and `DAL2`. Whatever depends on a template alone is done once for all its queries.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import cached_property

import attrs

from broker.matching.index.holes import Hole, Literal, Operator
from broker.matching.query import tree
from broker.matching.query.namespaces import BOUND
from broker.matching.query.number import number_of
from broker.matching.query.query import Query
from broker.matching.query.value_type import value_type

_NUMBER_OPERATORS = {
    "=": Operator.NUMBER_EQUAL,
    "!=": Operator.NUMBER_NOT_EQUAL,
    "<": Operator.LESS,
    "<=": Operator.LESS_EQUAL,
    ">": Operator.GREATER,
    ">=": Operator.GREATER_EQUAL,
}
_TEXT_OPERATORS = {"=": Operator.EQUAL, "!=": Operator.NOT_EQUAL}
_FLIPPED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
#: Functions that read the context whatever their arguments, and those without arguments that do
#: not: the others take the context node then.
_OF_CONTEXT = frozenset({"position", "last", "lang"})
_WITHOUT_CONTEXT = frozenset({"true", "false"})
_TEXT_FUNCTIONS = {"starts-with": Operator.STARTS_WITH, "contains": Operator.CONTAINS}


@attrs.frozen(cache_hash=True)
class Part:
    """A part of an expression, the same in all templates that have an equal part.

    `first` is the number of its first hole: templates that differ in it share nothing, since what
    is found of a part names its holes.
    """

    key: Hashable
    first: int


# No slots, for what is found out later.
@attrs.frozen(slots=False)
class Template:
    """A boolean expression with holes, each for a number, an empty text or one that is not empty.

    `key` is equal for equal templates. `expression` is that of one of the queries; `hole_at` says
    which comparison or call of it, by position, has which hole. `namespaces` resolves prefixes.
    `paths` has for each hole a number that is the same for all holes of equal paths: whose nodes
    are the same in every document, whatever the literals in their predicates are.
    """

    key: Hashable
    holes: tuple[Hole, ...] = attrs.field(eq=False)
    expression: tree.Expression = attrs.field(eq=False, repr=False)
    hole_at: Mapping[int, int] = attrs.field(eq=False, repr=False)
    namespaces: Mapping[str, str] = attrs.field(eq=False, repr=False)
    paths: tuple[int, ...] = attrs.field(eq=False, repr=False)

    @cached_property
    def parts(self) -> Mapping[int, Part]:
        """By the `id` of the expression, the parts whose value is the same wherever it is asked.

        That is all with a path but for what, in a predicate, depends on the predicate's node.
        """
        cutter = _Sharer(self.namespaces, with_holes=bool(self.hole_at))
        cutter.instance(self.expression)
        return cutter.parts


@attrs.frozen
class Instance:
    """A template with the literals of a query in its holes."""

    template: Template
    literals: tuple[Literal, ...]


def instances(query: Query, most: int = 16) -> tuple[Instance, ...]:
    """The query as alternatives of which one must hold; one unless `or` is its outermost operator.

    More than `most` alternatives stay one template.
    """
    expression = query.expression
    namespaces = {**BOUND, **dict(query.namespaces)}
    parts: tuple[tree.Expression, ...] = (expression,)
    if isinstance(expression, tree.Chain) and expression.operator == "or":
        if len(expression.operands) <= most:
            parts = expression.operands
    return tuple(_Cutter(namespaces).instance(part) for part in parts)


def whole(query: Query) -> Template:
    """The query as it stands: a template without holes, which has no other query."""
    namespaces = {**BOUND, **dict(query.namespaces)}
    return _Cutter(namespaces, with_holes=False).instance(query.expression).template


def literal_of(expression: tree.Expression) -> str | float | None:
    """The value of a literal, also of a negative number; None for any other expression."""
    match expression:
        case tree.Number(value=value) | tree.Literal(value=value):
            return value
        case tree.Negation(operand=tree.Number(value=value), signs=signs):
            return -value if signs % 2 else value
        case _:
            return None


class _Cutter:
    """Takes the literals out of one expression."""

    def __init__(self, namespaces: Mapping[str, str], *, with_holes: bool = True) -> None:
        self._namespaces = namespaces
        self._with_holes = with_holes
        self._holes: list[Hole] = []
        self._literals: list[Literal] = []
        self._paths: list[int] = []
        self._depth = 0
        self._hole_at: dict[int, int] = {}
        # Numbers of subjects; a predicate begins anew, for its node is another one.
        self._subjects: dict[Hashable, int] = {}
        self._numbered = 0

    def instance(self, expression: tree.Expression) -> Instance:
        key = (self._key(expression), tree.ValueType.BOOLEAN)
        template = Template(
            key,
            tuple(self._holes),
            expression,
            self._hole_at,
            self._namespaces,
            tuple(self._paths),
        )
        return Instance(template, tuple(self._literals))

    def _key(self, expression: tree.Expression) -> Hashable:
        match expression:
            case tree.Number(value=value):
                return ("number", repr(value))
            case tree.Literal(value=value):
                return ("text", value)
            case tree.Variable(name=name):
                return ("variable", name)
            case tree.Negation(operand=operand, signs=signs):
                return ("-", signs % 2, self._key(operand))
            case tree.Chain(operator=operator, operands=operands):
                return (operator, *map(self._key, operands))
            case tree.Filter() | tree.Path():
                return self._outer(expression)
            case tree.FunctionCall():
                return self._call(expression)
            case tree.Binary():
                return self._binary(expression)

    def _outer(self, path: tree.Filter | tree.Path) -> Hashable:
        """The key of a path, which all its holes have for theirs if it is in no other."""
        first = len(self._holes)
        self._depth += 1
        try:
            key = self._nodes(path)
        finally:
            self._depth -= 1
        if not self._depth:
            self._paths[first:] = [hash(key)] * (len(self._holes) - first)
        return key

    def _nodes(self, path: tree.Filter | tree.Path) -> Hashable:
        if isinstance(path, tree.Filter):
            return ("filter", self._key(path.primary), *map(self._inner, path.predicates))
        start = path.start
        origin = start if isinstance(start, tree.Origin) else self._key(start)
        return ("path", origin, *map(self._step, path.steps))

    def _inner(self, predicate: tree.Expression) -> Hashable:
        outer, self._subjects = self._subjects, {}
        try:
            return self._key(predicate)
        finally:
            self._subjects = outer

    def _step(self, step: tree.Step) -> Hashable:
        test: Hashable = step.test
        if isinstance(test, tree.NameTest):
            test = (None if test.prefix is None else self._namespaces[test.prefix], test.local)
        return (step.axis, test, *map(self._inner, step.predicates))

    def _call(self, call: tree.FunctionCall) -> Hashable:
        operator = _TEXT_FUNCTIONS.get(call.name)
        if operator is not None:
            subject, wanted = call.arguments
            if (
                self._with_holes
                and isinstance(wanted, tree.Literal)
                and literal_of(subject) is None
            ):
                key = self._key(subject)
                self._cut(call.position, operator, wanted.value.encode(), key)
                return ("?", operator, bool(wanted.value), key)
        return ("call", call.name, *map(self._key, call.arguments))

    def _binary(self, node: tree.Binary) -> Hashable:
        left, right = literal_of(node.left), literal_of(node.right)
        if (
            self._with_holes
            and node.operator in _NUMBER_OPERATORS
            and (left is None) is not (right is None)
        ):
            subject, literal, sign = (
                (node.right, left, _FLIPPED[node.operator])
                if right is None
                else (node.left, right, node.operator)
            )
            kind = value_type(subject)
            if kind is not tree.ValueType.BOOLEAN:
                assert literal is not None
                key = self._key(subject)
                operator, value = _comparison(kind, sign, literal)
                self._cut(node.position, operator, value, key)
                return ("?", operator, value != b"", key)
        return (node.operator, self._key(node.left), self._key(node.right))

    def _cut(self, position: int, operator: Operator, literal: Literal, subject: Hashable) -> None:
        bare = _bare(subject)
        number = self._subjects.get(bare)
        if number is None:
            self._numbered += 1
            number = self._subjects[bare] = self._numbered
        self._hole_at[position] = len(self._holes)
        self._holes.append(Hole(operator, number))
        # Of a hole within a path, the path will be told.
        self._paths.append(hash(subject))
        self._literals.append(literal)


class _Sharer(_Cutter):
    """Cuts an expression once more, to note its parts."""

    def __init__(self, namespaces: Mapping[str, str], *, with_holes: bool) -> None:
        super().__init__(namespaces, with_holes=with_holes)
        self.parts: dict[int, Part] = {}
        self._predicates = 0
        # Whether the expression has a path, and reads its context; its predicates have their own.
        self._has_path = False
        self._is_relative = False

    def _key(self, expression: tree.Expression) -> Hashable:
        outer = self._has_path, self._is_relative
        self._has_path = isinstance(expression, tree.Path)
        self._is_relative = _is_relative(expression)
        first = len(self._holes)
        key = super()._key(expression)
        if self._has_path and not (self._predicates and self._is_relative):
            self.parts[id(expression)] = Part(key, first)
        self._has_path |= outer[0]
        self._is_relative |= outer[1]
        return key

    def _inner(self, predicate: tree.Expression) -> Hashable:
        outer = self._has_path, self._is_relative
        self._predicates += 1
        key = super()._inner(predicate)
        self._predicates -= 1
        self._has_path, self._is_relative = outer
        return key


def _is_relative(expression: tree.Expression) -> bool:
    """Whether it reads the context itself, not what it is made of."""
    match expression:
        case tree.Path(start=start):
            return start is tree.Origin.CONTEXT
        case tree.FunctionCall(name=name, arguments=arguments):
            return name in _OF_CONTEXT or not (arguments or name in _WITHOUT_CONTEXT)
        case _:
            return False


def _bare(key: Hashable) -> Hashable:
    """A path's key without predicates: `a[b]` and `a` are the same node in most documents."""
    if isinstance(key, tuple) and key and key[0] == "path":
        return key[:2] + tuple(step[:2] for step in key[2:])
    return key


def _comparison(kind: tree.ValueType, sign: str, literal: str | float) -> tuple[Operator, Literal]:
    """How a value of this type is compared with a literal (XPath 1.0, section 3.4)."""
    textual = sign in _TEXT_OPERATORS and kind is not tree.ValueType.NUMBER
    if textual and isinstance(literal, str):
        return _TEXT_OPERATORS[sign], literal.encode()
    number = number_of(literal) if isinstance(literal, str) else literal
    return _NUMBER_OPERATORS[sign], number
