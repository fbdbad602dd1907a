"""Paths of elements that are decided at a start tag, from the tags that are open.

Sans-I/O. The parser is that of queries; paths that need more than open start tags are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

import attrs

from broker.matching.query.limits import QueryLimits
from broker.matching.query.namespaces import DEFAULT, PREDEFINED_PREFIXES
from broker.matching.query.parser import parse_expression
from broker.matching.query.tree import (
    ANY_NODE,
    Axis,
    Binary,
    Chain,
    Expression,
    FunctionCall,
    Literal,
    NameTest,
    Path,
    PathStart,
    Step,
)

#: State of a path at the document's root: its first step is tested.
START: Final = 1
_LIMITS: Final = QueryLimits(max_steps=32)
_FORM: Final = "give a path from the root, such as //cap:alert or /feed/entry[@type = 'x']/alert"


class StartTag(Protocol):
    uri: str
    """Namespace of the element; empty: none."""
    local: str

    def find_attribute(self, uri: str, local: str) -> str | None: ...


_Condition = Callable[[StartTag], bool]


@attrs.frozen
class PathStep:
    is_descendant: bool
    """True behind `//`: the element is at any depth."""
    uri: str | None
    """None: any."""
    local: str | None
    """None: any."""
    conditions: tuple[_Condition, ...] = attrs.field(eq=False)

    def matches(self, tag: StartTag) -> bool:
        return (
            (self.local is None or self.local == tag.local)
            and (self.uri is None or self.uri == tag.uri)
            and all(condition(tag) for condition in self.conditions)
        )


@attrs.frozen
class StreamingPath:
    """Each open element has a state: a bit for each step that its children are tested for."""

    text: str
    steps: tuple[PathStep, ...]
    attribute: tuple[str, str] | None = None
    """Namespace and local name of an attribute behind the last element."""

    def advance(self, state: int, tag: StartTag) -> tuple[int, bool]:
        """Return the state of a child of an element with `state`, and whether it matches."""
        after, is_match = 0, False
        for index, step in enumerate(self.steps):
            if not state >> index & 1:
                continue
            if step.is_descendant:
                after |= 1 << index
            if step.matches(tag):
                after |= 2 << index
                is_match = is_match or index == len(self.steps) - 1
        return after, is_match


def parse_split_path(
    text: str, namespaces: Mapping[str, str], *, allow_attribute: bool = False
) -> StreamingPath:
    """Parse a path of child and descendant steps with conditions on attributes.

    Raises ValueError, or `BadQuery` if it is no XPath expression.
    """
    if len(text) > _LIMITS.max_length:
        raise ValueError(f"the path is longer than {_LIMITS.max_length} characters")
    expression, _ = parse_expression(text, _LIMITS)
    if not isinstance(expression, Path) or expression.start is not PathStart.DOCUMENT:
        raise ValueError(_FORM)
    bindings = {**PREDEFINED_PREFIXES, **namespaces}
    found, attribute = list(expression.steps), None
    if allow_attribute and found and found[-1].axis is Axis.ATTRIBUTE:
        attribute = _attribute_name(found.pop(), bindings)
    steps: list[PathStep] = []
    is_descendant = False
    for step in found:
        if step.axis is Axis.DESCENDANT_OR_SELF and step.test == ANY_NODE and not step.predicates:
            is_descendant = True
            continue
        steps.append(_element_step(step, is_descendant, bindings))
        is_descendant = False
    if not steps or is_descendant:
        raise ValueError(f"it has no element at its end; {_FORM}")
    return StreamingPath(text, tuple(steps), attribute)


def _element_step(step: Step, is_descendant: bool, bindings: Mapping[str, str]) -> PathStep:
    if step.axis not in (Axis.CHILD, Axis.DESCENDANT) or not isinstance(step.test, NameTest):
        raise _unsupported(step.position, "only names of elements, behind / or //")
    uri, local = _resolve(step.test, bindings)
    if uri == "":
        uri = bindings.get(DEFAULT, "")
    conditions = tuple(_condition(each, bindings) for each in step.predicates)
    return PathStep(is_descendant or step.axis is Axis.DESCENDANT, uri, local, conditions)


def _resolve(test: NameTest, bindings: Mapping[str, str]) -> tuple[str | None, str | None]:
    if test.prefix is None:
        return (None if test.local is None else ""), test.local
    if test.prefix not in bindings:
        raise ValueError(
            f"the prefix {test.prefix} is not bound: give --namespace {test.prefix}=URI"
        )
    return bindings[test.prefix], test.local


def _attribute_name(step: Step, bindings: Mapping[str, str]) -> tuple[str, str]:
    if isinstance(step.test, NameTest) and step.test.local is not None and not step.predicates:
        uri, local = _resolve(step.test, bindings)
        return uri or "", local or ""
    raise _unsupported(step.position, "an attribute has a name here, and no predicate")


def _condition(expression: Expression, bindings: Mapping[str, str]) -> _Condition:
    """Return a predicate's value at a start tag. Raises ValueError if a start tag is too little."""
    match expression:
        case Chain(operator=("and" | "or") as operator, operands=operands):
            parts = [_condition(each, bindings) for each in operands]
            combine = all if operator == "and" else any
            return lambda tag: combine(part(tag) for part in parts)
        case FunctionCall(name="not", arguments=(argument,)):
            negated = _condition(argument, bindings)
            return lambda tag: not negated(tag)
        case FunctionCall(name="contains", arguments=(Path() as path, Literal(value=part))):
            find = _attribute(path, bindings)
            return lambda tag: part in (find(tag) or "")
        case FunctionCall(name="starts-with", arguments=(Path() as path, Literal(value=part))):
            find = _attribute(path, bindings)
            return lambda tag: (find(tag) or "").startswith(part)
        case Binary(
            operator=("=" | "!=") as operator, left=Path() as path, right=Literal(value=v)
        ) | (
            Binary(operator=("=" | "!=") as operator, left=Literal(value=v), right=Path() as path)
        ):
            find = _attribute(path, bindings)
            if operator == "=":
                return lambda tag: find(tag) == v
            return lambda tag: find(tag) not in (None, v)
        case Path():
            find = _attribute(expression, bindings)
            return lambda tag: find(tag) is not None
    raise _unsupported(
        expression.position, "a predicate compares attributes with texts, such as [@type = 'x']"
    )


def _attribute(path: Path, bindings: Mapping[str, str]) -> Callable[[StartTag], str | None]:
    if path.start is not PathStart.CONTEXT or [s.axis for s in path.steps] != [Axis.ATTRIBUTE]:
        raise _unsupported(path.position, "a predicate sees only attributes of its element")
    uri, local = _attribute_name(path.steps[0], bindings)
    return lambda tag: tag.find_attribute(uri, local)


def _unsupported(position: int, reason: str) -> ValueError:
    return ValueError(f"column {position + 1} can not be decided at a start tag: {reason}")
