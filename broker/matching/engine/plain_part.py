"""The part of a template that is a plain path."""

from __future__ import annotations

import attrs

from broker.matching.partial.plain_path import PlainPath, compile_plain_path
from broker.matching.partial.template import PartKey, Template
from broker.matching.query import tree


@attrs.frozen
class PlainPart:
    """The plain path of a template: the whole, or one part of an outermost `and`."""

    path: PlainPath
    key: PartKey
    """Equal for equal parts of templates with equal numbers of parameters."""
    is_whole: bool
    """False if there are other parts. Shapes seldom decide them."""


def find_plain_part(template: Template) -> PlainPart | None:
    """Return None for a template that must be evaluated."""
    parts = template.parts
    paths = [compile_plain_path(template, each) for each in parts]
    plain_paths = [(at, path) for at, path in enumerate(paths) if path is not None]
    if len(plain_paths) != 1:
        return None
    [(chosen, path)] = plain_paths
    if not all(_counts_filtered_nodes(each) for at, each in enumerate(parts) if at != chosen):
        return None
    return PlainPart(path, template.part_keys[chosen], is_whole=len(parts) == 1)


def _counts_filtered_nodes(expression: tree.Expression) -> bool:
    """Return True if it counts, sums or numbers nodes that predicates select."""
    match expression:
        case tree.FunctionCall(name="count" | "sum", arguments=arguments):
            return any(map(_has_predicates, arguments))
        case tree.Filter(primary=primary):
            return _has_predicates(primary)
    inner = (*tree.subexpressions_of(expression), *tree.predicates_of(expression))
    return any(map(_counts_filtered_nodes, inner))


def _has_predicates(expression: tree.Expression) -> bool:
    return isinstance(expression, tree.Path) and any(step.predicates for step in expression.steps)
