"""Calls within predicates that mean the same for every node, so that they are made once.

`//Param[@value > count(//Param)]` has libxml2 count all parameters for each of them: its work grows
with the square of the document. A variable does not.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from broker.content.query import tree

#: What these return depends on the node, or is a node-set.
_OF_THE_CONTEXT = frozenset({"position", "last", "lang", "id"})
#: What these return depends on the node where they have no argument.
_MAYBE_OF_THE_CONTEXT = frozenset(
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
class Invariants:
    """A query's text with variables in place of `calls`: `$i0` for the first, and so on."""

    text: str
    calls: tuple[str, ...]


def invariants(text: str, expression: tree.Expression) -> Invariants:
    """Take out of a text, which was read as `expression`, what need not be evaluated twice."""
    parts: list[str] = []
    calls: list[str] = []
    done = 0
    for call in _found(expression, within=False):
        end = _end(text, call.position)
        parts += [text[done : call.position], f"$i{len(calls)}"]
        calls.append(text[call.position : end])
        done = end
    return Invariants("".join([*parts, text[done:]]) if calls else text, tuple(calls))


def _found(expression: tree.Expression, *, within: bool) -> Iterator[tree.FunctionCall]:
    """The outermost such calls, in the order of the text; `within` a predicate or not."""
    match expression:
        case tree.FunctionCall(arguments=arguments):
            if within and _has_path(expression) and _is_invariant(expression):
                yield expression
                return
            for argument in arguments:
                yield from _found(argument, within=within)
        case tree.Path(start=start, steps=steps):
            if not isinstance(start, tree.Origin):
                yield from _found(start, within=within)
            for step in steps:
                for predicate in step.predicates:
                    yield from _found(predicate, within=True)
        case tree.Filter(primary=primary, predicates=predicates):
            yield from _found(primary, within=within)
            for predicate in predicates:
                yield from _found(predicate, within=True)
        case tree.Binary(left=left, right=right):
            yield from _found(left, within=within)
            yield from _found(right, within=within)
        case tree.Chain(operands=operands):
            for operand in operands:
                yield from _found(operand, within=within)
        case tree.Negation(operand=operand):
            yield from _found(operand, within=within)


def _is_invariant(expression: tree.Expression) -> bool:
    match expression:
        case tree.Number() | tree.Literal():
            return True
        case tree.FunctionCall(name=name, arguments=arguments):
            if name in _OF_THE_CONTEXT or (name in _MAYBE_OF_THE_CONTEXT and not arguments):
                return False
            return all(map(_is_invariant, arguments))
        case tree.Path(start=start):
            # What is in its predicates has nodes of its own.
            if isinstance(start, tree.Origin):
                return start is tree.Origin.DOCUMENT
            return _is_invariant(start)
        case tree.Filter(primary=primary):
            return _is_invariant(primary)
        case tree.Binary(left=left, right=right):
            return _is_invariant(left) and _is_invariant(right)
        case tree.Chain(operands=operands):
            return all(map(_is_invariant, operands))
        case tree.Negation(operand=operand):
            return _is_invariant(operand)
        case _:
            return False


def _has_path(expression: tree.Expression) -> bool:
    match expression:
        case tree.Path():
            return True
        case tree.FunctionCall(arguments=arguments):
            return any(map(_has_path, arguments))
        case tree.Filter(primary=primary):
            return _has_path(primary)
        case tree.Binary(left=left, right=right):
            return _has_path(left) or _has_path(right)
        case tree.Chain(operands=operands):
            return any(map(_has_path, operands))
        case tree.Negation(operand=operand):
            return _has_path(operand)
        case _:
            return False


def _end(text: str, start: int) -> int:
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
