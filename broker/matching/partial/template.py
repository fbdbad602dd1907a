"""Templates: queries that differ only in the literals of comparisons (F5).

`/flight[id = "UAL1"]` and `/flight['DAL2' = id]` have one template with one parameter.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import cached_property
from typing import TypeAlias

import attrs

from broker.matching.index.parameter import Literal, Operator, Parameter
from broker.matching.query import tree
from broker.matching.query.namespaces import PREDEFINED_PREFIXES
from broker.matching.query.number import parse_number
from broker.matching.query.query import Query
from broker.matching.query.value_type import value_type

_NUMBER_OPERATORS = {sign: Operator(sign) for sign in tree.MIRRORED_OPERATORS}
_TEXT_OPERATORS = {"=": Operator.EQUAL, "!=": Operator.NOT_EQUAL}
#: Functions that always read the context, and argument-less ones that never do. The others read the
#: context node if they have no argument.
_CONTEXT_FUNCTIONS = frozenset({"position", "last", "lang"})
_CONTEXT_FREE_FUNCTIONS = frozenset({"true", "false"})
#: Number of the first parameter of a part, and the key of the part.
PartKey: TypeAlias = tuple[int, Hashable]

_TEXT_FUNCTIONS = {"starts-with": Operator.STARTS_WITH, "contains": Operator.CONTAINS}


# No slots: `cached_property` needs a `__dict__`.
@attrs.frozen(slots=False)
class Template:
    """Boolean expression with parameters: a number, an empty text or a non-empty text each.

    `expression` is one query's. `parameter_at` maps the position of a comparison or call to its
    parameter. Equal `path_ids` mean equal paths, whatever their literals. `part_keys` has a key for
    each operand of an outermost `and`, with the number of its first parameter.
    """

    key: Hashable
    parameters: tuple[Parameter, ...] = attrs.field(eq=False)
    expression: tree.Expression = attrs.field(eq=False, repr=False)
    parameter_at: Mapping[int, int] = attrs.field(eq=False, repr=False)
    namespaces: Mapping[str, str] = attrs.field(eq=False, repr=False)
    path_ids: tuple[int, ...] = attrs.field(eq=False, repr=False)
    part_keys: tuple[PartKey, ...] = attrs.field(eq=False, repr=False)

    @property
    def parts(self) -> tuple[tree.Expression, ...]:
        """The operands of an outermost `and`; else the whole expression."""
        return _operands_of_and(self.expression)

    @cached_property
    def context_free(self) -> frozenset[int]:
        """The `id`s of subexpressions in predicates that select the same nodes in every context."""
        found: set[int] = set()
        _collect_context_free(self.expression, found, in_predicate=False)
        return frozenset(found)


@attrs.frozen
class TemplateInstance:
    template: Template
    literals: tuple[Literal, ...]


def extract_templates(query: Query, max_alternatives: int = 16) -> tuple[TemplateInstance, ...]:
    """Extract a template from each alternative of an outermost `or`, unless there are too many."""
    expression = query.expression
    namespaces = {**PREDEFINED_PREFIXES, **dict(query.namespaces)}
    parts: tuple[tree.Expression, ...] = (expression,)
    if isinstance(expression, tree.Chain) and expression.operator == "or":
        if len(expression.operands) <= max_alternatives:
            parts = expression.operands
    return tuple(_TemplateExtractor(namespaces).extract(part) for part in parts)


def template_without_parameters(query: Query) -> Template:
    namespaces = {**PREDEFINED_PREFIXES, **dict(query.namespaces)}
    return _TemplateExtractor(namespaces, with_parameters=False).extract(query.expression).template


class _TemplateExtractor:
    def __init__(self, namespaces: Mapping[str, str], *, with_parameters: bool = True) -> None:
        self._namespaces = namespaces
        self._with_parameters = with_parameters
        self._parameters: list[Parameter] = []
        self._literals: list[Literal] = []
        self._path_ids: list[int] = []
        self._path_depth = 0
        self._parameter_at: dict[int, int] = {}
        # Numbers of compared subjects. Each predicate starts a new table: its context differs.
        self._subject_numbers: dict[Hashable, int] = {}
        self._last_subject_number = 0

    def extract(self, expression: tree.Expression) -> TemplateInstance:
        parts = [(len(self._parameters), self._key(part)) for part in _operands_of_and(expression)]
        key = (*(key for _, key in parts), tree.ValueType.BOOLEAN)
        template = Template(
            key,
            tuple(self._parameters),
            expression,
            self._parameter_at,
            self._namespaces,
            tuple(self._path_ids),
            tuple(parts),
        )
        return TemplateInstance(template, tuple(self._literals))

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
                return self._path_key(expression)
            case tree.FunctionCall():
                return self._call_key(expression)
            case tree.Binary():
                return self._binary_key(expression)

    def _path_key(self, path: tree.Filter | tree.Path) -> Hashable:
        """Return a path's key, and assign it to all parameters in an outermost path."""
        first = len(self._parameters)
        self._path_depth += 1
        try:
            key = self._node_set_key(path)
        finally:
            self._path_depth -= 1
        if not self._path_depth:
            self._path_ids[first:] = [hash(key)] * (len(self._parameters) - first)
        return key

    def _node_set_key(self, path: tree.Filter | tree.Path) -> Hashable:
        if isinstance(path, tree.Filter):
            return ("filter", self._key(path.primary), *map(self._predicate_key, path.predicates))
        start = path.start
        origin = start if isinstance(start, tree.PathStart) else self._key(start)
        return ("path", origin, *map(self._step_key, path.steps))

    def _predicate_key(self, predicate: tree.Expression) -> Hashable:
        outer, self._subject_numbers = self._subject_numbers, {}
        try:
            return self._key(predicate)
        finally:
            self._subject_numbers = outer

    def _step_key(self, step: tree.Step) -> Hashable:
        test: Hashable = step.test
        if isinstance(test, tree.NameTest):
            test = (None if test.prefix is None else self._namespaces[test.prefix], test.local)
        return (step.axis, test, *map(self._predicate_key, step.predicates))

    def _call_key(self, call: tree.FunctionCall) -> Hashable:
        operator = _TEXT_FUNCTIONS.get(call.name)
        if operator is not None:
            subject, substring = call.arguments
            if (
                self._with_parameters
                and isinstance(substring, tree.Literal)
                and tree.literal_value(subject) is None
            ):
                key = self._key(subject)
                self._add_parameter(call.position, operator, substring.value.encode(), key)
                return ("?", operator, bool(substring.value), key)
        return ("call", call.name, *map(self._key, call.arguments))

    def _binary_key(self, node: tree.Binary) -> Hashable:
        left, right = tree.literal_value(node.left), tree.literal_value(node.right)
        if (
            self._with_parameters
            and node.operator in _NUMBER_OPERATORS
            and (left is None) is not (right is None)
        ):
            subject, literal, sign = (
                (node.right, left, tree.MIRRORED_OPERATORS[node.operator])
                if right is None
                else (node.left, right, node.operator)
            )
            kind = value_type(subject)
            if kind is not tree.ValueType.BOOLEAN:
                assert literal is not None
                key = self._key(subject)
                operator, value = _parameter_comparison(kind, sign, literal)
                self._add_parameter(node.position, operator, value, key)
                return ("?", operator, value != b"", key)
        return (node.operator, self._key(node.left), self._key(node.right))

    def _add_parameter(
        self, position: int, operator: Operator, literal: Literal, subject: Hashable
    ) -> None:
        bare = _without_predicates(subject)
        number = self._subject_numbers.get(bare)
        if number is None:
            self._last_subject_number += 1
            number = self._subject_numbers[bare] = self._last_subject_number
        self._parameter_at[position] = len(self._parameters)
        self._parameters.append(Parameter(operator, number))
        # An outermost path around overwrites it.
        self._path_ids.append(hash(subject))
        self._literals.append(literal)


def _operands_of_and(expression: tree.Expression) -> tuple[tree.Expression, ...]:
    if isinstance(expression, tree.Chain) and expression.operator == "and":
        return expression.operands
    return (expression,)


def _collect_context_free(
    expression: tree.Expression, found: set[int], *, in_predicate: bool
) -> tuple[bool, bool]:
    """Return whether the expression without its predicates has a path, and reads the context."""
    has_path, reads_context = isinstance(expression, tree.Path), _reads_context(expression)
    for part in tree.subexpressions_of(expression):
        inner = _collect_context_free(part, found, in_predicate=in_predicate)
        has_path, reads_context = has_path or inner[0], reads_context or inner[1]
    for predicate in tree.predicates_of(expression):
        _collect_context_free(predicate, found, in_predicate=True)
    if in_predicate and has_path and not reads_context:
        found.add(id(expression))
    return has_path, reads_context


def _reads_context(expression: tree.Expression) -> bool:
    """Return True if the expression itself reads the context; subexpressions excluded."""
    match expression:
        case tree.Path(start=start):
            return start is tree.PathStart.CONTEXT
        case tree.FunctionCall(name=name, arguments=arguments):
            return name in _CONTEXT_FUNCTIONS or not (arguments or name in _CONTEXT_FREE_FUNCTIONS)
        case _:
            return False


def _without_predicates(key: Hashable) -> Hashable:
    """Return a path's key without predicates: `a[b]` and `a` are mostly the same node."""
    if isinstance(key, tuple) and key and key[0] == "path":
        return key[:2] + tuple(step[:2] for step in key[2:])
    return key


def _parameter_comparison(
    kind: tree.ValueType, sign: str, literal: str | float
) -> tuple[Operator, Literal]:
    textual = sign in _TEXT_OPERATORS and kind is not tree.ValueType.NUMBER
    if textual and isinstance(literal, str):
        return _TEXT_OPERATORS[sign], literal.encode()
    number = parse_number(literal) if isinstance(literal, str) else literal
    return _NUMBER_OPERATORS[sign], number
