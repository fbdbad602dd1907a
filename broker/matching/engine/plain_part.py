"""Which templates have a path that can be read off a tree, and what they have beside it."""

from __future__ import annotations

import attrs

from broker.matching.partial.plain_path import PlainPath, compile_plain_path
from broker.matching.partial.template import PartKey, Template
from broker.matching.query import tree


@attrs.frozen
class PlainPart:
    """The plain path of a template: all of it, or one part of its outermost `and`."""

    path: PlainPath
    key: PartKey
    """Equal for equal parts of other templates, with equal numbers of holes."""
    is_whole: bool
    """Whether that is all. Else no shape is likely to decide the other parts."""


def find_plain_part(template: Template) -> PlainPart | None:
    """None for a template that has to be evaluated."""
    parts = template.parts
    paths = [compile_plain_path(template, each) for each in parts]
    found = [(at, path) for at, path in enumerate(paths) if path is not None]
    if len(found) != 1:
        return None
    [(chosen, path)] = found
    if not all(_counts_filtered_nodes(each) for at, each in enumerate(parts) if at != chosen):
        return None
    return PlainPart(path, template.part_keys[chosen], is_whole=len(parts) == 1)


def _counts_filtered_nodes(expression: tree.Expression) -> bool:
    """Whether it counts, adds up or numbers nodes that predicates choose."""
    match expression:
        case tree.FunctionCall(name="count" | "sum", arguments=arguments):
            return any(map(_has_predicates, arguments))
        case tree.Filter(primary=primary):
            return _has_predicates(primary)
    inner = (*tree.subexpressions_of(expression), *tree.predicates_of(expression))
    return any(map(_counts_filtered_nodes, inner))


def _has_predicates(expression: tree.Expression) -> bool:
    return isinstance(expression, tree.Path) and any(step.predicates for step in expression.steps)
