"""Loop-invariant calls in predicates, hoisted so that each is evaluated once.

For `//Param[@value > count(//Param)]`, libxml2 counts all parameters for each of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from broker.matching.query import tree
from broker.matching.query.value_type import CORE_FUNCTIONS

#: Results that depend on the context node, or are node-sets.
_CONTEXT_DEPENDENT = frozenset({"position", "last", "lang", "id"})


@attrs.frozen
class HoistedQuery:
    """Query text with variables in place of `calls`: `$i0` for the first, and so on."""

    text: str
    calls: tuple[str, ...]


def hoist_invariant_calls(text: str, expression: tree.Expression) -> HoistedQuery:
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
    if in_predicate and isinstance(expression, tree.FunctionCall):
        if _is_invariant(expression):
            yield expression
            return
    for part in tree.subexpressions_of(expression):
        yield from _find_calls(part, in_predicate=in_predicate)
    for predicate in tree.predicates_of(expression):
        yield from _find_calls(predicate, in_predicate=True)


def _is_invariant(call: tree.FunctionCall) -> bool:
    """Return True if the call reads a document, but no context node and no variable."""
    has_path = False
    for part in tree.walk(call):
        match part:
            case tree.Variable():
                return False
            case tree.FunctionCall(name=name, arguments=arguments):
                reads_context = CORE_FUNCTIONS[name].reads_context and not arguments
                if name in _CONTEXT_DEPENDENT or reads_context:
                    return False
            case tree.Path(start=start):
                # Predicates of the path have context nodes of their own.
                if start in (tree.PathStart.CONTEXT, tree.PathStart.ENVELOPE):
                    return False
                has_path = True
    return has_path


def _call_end(text: str, start: int) -> int:
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
