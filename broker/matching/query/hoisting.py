"""Calls within predicates that mean the same for every node, so that they are made once.

`//Param[@value > count(//Param)]` has libxml2 count all parameters for each of them: its work grows
with the square of the document. A variable does not.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from broker.matching.query import tree

#: What these return depends on the node, or is a node-set.
_CONTEXT_DEPENDENT = frozenset({"position", "last", "lang", "id"})
#: What these return depends on the node where they have no argument.
_CONTEXT_DEPENDENT_WITHOUT_ARGUMENT = frozenset(
    {
        "string",
        "number",
        "string-length",
        "normalize-space",
        "name",
        "local-name",
        "namespace-uri",
    }
)


@attrs.frozen
class HoistedQuery:
    """A query's text with variables in place of `calls`: `$i0` for the first, and so on."""

    text: str
    calls: tuple[str, ...]


def hoist_invariant_calls(text: str, expression: tree.Expression) -> HoistedQuery:
    """Take out of a text, which was read as `expression`, what need not be evaluated twice."""
    parts: list[str] = []
    calls: list[str] = []
    done = 0
    for call in _find_calls(expression, in_predicate=False):
        end = _call_end(text, call.position)
        parts += [text[done : call.position], f"$i{len(calls)}"]
        calls.append(text[call.position : end])
        done = end
    return HoistedQuery("".join([*parts, text[done:]]) if calls else text, tuple(calls))


def _find_calls(expression: tree.Expression, *, in_predicate: bool) -> Iterator[tree.FunctionCall]:
    """The outermost such calls, in the order of the text; `within` a predicate or not."""
    if in_predicate and isinstance(expression, tree.FunctionCall):
        if _has_path(expression) and _is_invariant(expression):
            yield expression
            return
    for part in tree.subexpressions_of(expression):
        yield from _find_calls(part, in_predicate=in_predicate)
    for predicate in tree.predicates_of(expression):
        yield from _find_calls(predicate, in_predicate=True)


def _is_invariant(expression: tree.Expression) -> bool:
    match expression:
        case tree.Variable():
            return False
        case tree.FunctionCall(name=name, arguments=arguments):
            if name in _CONTEXT_DEPENDENT or (
                name in _CONTEXT_DEPENDENT_WITHOUT_ARGUMENT and not arguments
            ):
                return False
        case tree.Path(start=tree.PathStart() as start):
            # What is in its predicates has nodes of its own.
            return start is tree.PathStart.DOCUMENT
    return all(map(_is_invariant, tree.subexpressions_of(expression)))


def _has_path(expression: tree.Expression) -> bool:
    return isinstance(expression, tree.Path) or any(
        map(_has_path, tree.subexpressions_of(expression))
    )


def _call_end(text: str, start: int) -> int:
    """Just behind the closing bracket of the call that begins at `start`."""
    depth, quote = 0, ""
    for at in range(start, len(text)):
        character = text[at]
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
            if not depth:
                return at + 1
    raise ValueError("the call has no end")
