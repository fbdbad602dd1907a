"""Extension functions for lxml, in place of string functions that are quadratic in libxml2.

Calls with an argument that is not short are rewritten (`query.py`) to functions of the same names
in the envelope's namespace, whose prefix can not be rebound. Their work is linear in their texts,
and limited by `MAX_WORK` in all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from broker.errors import QueryTooExpensive
from broker.event.envelope import ENVELOPE_PREFIX, NAMESPACE
from broker.matching.query import tree
from broker.matching.query.cursor import ParseInfo, Replacement
from broker.matching.query.lexer import Token
from broker.matching.query.tree import (
    Axis,
    Expression,
    FunctionCall,
    Literal,
    Path,
    PathStart,
    ValueType,
)
from broker.matching.query.value_type import value_type

#: Characters in literals that libxml2 may search for or translate, per query. Each costs one
#: comparison per character of a text: in a megabyte some 300 ms in all.
MAX_LIBXML2_SEARCHED = 256
#: Limit for libxml2's `concat`: its arguments, and the copies of the document's text in the result.
MAX_LIBXML2_CONCATENATED = 16
#: The same limit for one call of this module's `concat`, whose arguments are all in memory.
MAX_CONCATENATED = 64
#: Work of one evaluation, some half a second. The unit is one searched character, 5 ns with the
#: creation of its text. A hundred keywords fit for one megabyte.
MAX_WORK = 128 * 1024 * 1024
#: Work per character that is joined (in memory several times) or translated.
_CONCATENATION_WORK = 8
_TRANSLATION_WORK = 8

_INWARD_AXES = frozenset(
    {Axis.CHILD, Axis.ATTRIBUTE, Axis.SELF, Axis.DESCENDANT, Axis.DESCENDANT_OR_SELF}
)
SEARCH_FUNCTIONS = frozenset({"contains", "substring-before", "substring-after", "translate"})


def record_call_rewrite(
    call: FunctionCall,
    name: Token,
    punctuation: Sequence[Token],
    info: ParseInfo,
    *,
    in_predicate: bool,
) -> None:
    """Record replacements for a call that must become an extension function.

    `punctuation` has its brackets and commas. A call in a predicate is evaluated for each node.
    """
    if call.name in SEARCH_FUNCTIONS:
        short = _is_short_search(call.arguments[1], info)
        if not short or (in_predicate and _reads_outside_context(call.arguments[0])):
            info.call_replacements += _rewrite_call(name, punctuation, [])
    elif (
        call.name == "concat"
        and max(len(call.arguments), _count_copies(call)) > MAX_LIBXML2_CONCATENATED
    ):
        info.call_replacements += _rewrite_call(
            name, punctuation, _split_points(call.arguments, punctuation[1:-1])
        )


def _is_short_search(substring: Expression, info: ParseInfo) -> bool:
    if isinstance(substring, Literal):
        if info.searched_characters + len(substring.value) > MAX_LIBXML2_SEARCHED:
            return False
        info.searched_characters += len(substring.value)
        return True
    return value_type(substring) in (ValueType.NUMBER, ValueType.BOOLEAN)


def _reads_outside_context(text: Expression) -> bool:
    """Return True if the text may lie outside the predicate's node, and be the same for many."""
    return any(
        part.start in (PathStart.DOCUMENT, PathStart.ENVELOPE)
        or any(step.axis not in _INWARD_AXES for step in part.steps)
        for part in tree.walk(text)
        if isinstance(part, Path)
    )


def _count_copies(expression: Expression) -> int:
    """Maximum number of copies of the whole document's text in the expression's value."""
    kind = value_type(expression)
    if kind in (ValueType.NUMBER, ValueType.BOOLEAN) or isinstance(expression, Literal):
        return 0
    if kind is ValueType.STRING and isinstance(expression, FunctionCall) and expression.arguments:
        joined = expression.name == "concat"
        return sum(map(_count_copies, expression.arguments if joined else expression.arguments[:1]))
    return 1


def _split_points(arguments: Sequence[Expression], commas: Sequence[Token]) -> list[Token]:
    """Commas at which a `concat` is split, so that no call exceeds `MAX_CONCATENATED`."""
    ends = []
    copies_in_call = 0
    for place, argument in enumerate(arguments):
        copies = max(_count_copies(argument), 1)
        copies_in_call += copies
        if copies_in_call > MAX_CONCATENATED and place:
            ends.append(commas[place - 1])
            copies_in_call = copies
    return ends


def _rewrite_call(
    name: Token, punctuation: Sequence[Token], ends: Sequence[Token]
) -> list[Replacement]:
    """Rewrite `f(a,b)` to `Mspaces:f(string(a),string(b))`; lxml would pass a node-set as a list.

    With commas in `ends`, the result is `f(f(a,b),c)`, which is equal for `concat`.
    """
    opening, *commas, closing = punctuation
    call = f" {ENVELOPE_PREFIX}:{name.text}"
    separators = dict.fromkeys(commas, "),string(") | dict.fromkeys(ends, ")),string(")
    texts = {
        name: f"{call}(" * len(ends) + call,
        opening: "(string(",
        **separators,
        closing: "))",
    }
    return [Replacement(token.position, token.end, text) for token, text in texts.items()]


def _count_work(context: Any, amount: int) -> None:
    done = context.eval_context.get(NAMESPACE, 0) + amount
    context.eval_context[NAMESPACE] = done
    if done > MAX_WORK:
        raise QueryTooExpensive(
            "the query joins, searches or translates texts of too many characters on one event"
        )


def _contains(context: Any, text: str, substring: str) -> bool:
    _count_work(context, len(text))
    return substring in text


def _substring_before(context: Any, text: str, substring: str) -> str:
    _count_work(context, len(text))
    return text[: max(text.find(substring), 0)]


def _substring_after(context: Any, text: str, substring: str) -> str:
    _count_work(context, len(text))
    place = text.find(substring)
    return text[place + len(substring) :] if place >= 0 else ""


def _translate(context: Any, text: str, old: str, new: str) -> str:
    _count_work(context, _TRANSLATION_WORK * (len(text) + len(old)))
    return translate_text(text, old, new)


def translate_text(text: str, old: str, new: str) -> str:
    table: dict[int, str | None] = {}
    for place, character in enumerate(old):
        # The first occurrence counts; characters without a replacement are removed.
        table.setdefault(ord(character), new[place] if place < len(new) else None)
    return text.translate(table)


def _concat(context: Any, *texts: str) -> str:
    # The first argument may be the result of another call, which was counted there.
    _count_work(context, _CONCATENATION_WORK * sum(map(len, texts[1:])))
    return "".join(texts)


#: For lxml: (namespace, name) -> function.
EXTENSION_FUNCTIONS: Final[Mapping[tuple[str, str], Callable[..., bool | str]]] = {
    (NAMESPACE, "contains"): _contains,
    (NAMESPACE, "substring-before"): _substring_before,
    (NAMESPACE, "substring-after"): _substring_after,
    (NAMESPACE, "translate"): _translate,
    (NAMESPACE, "concat"): _concat,
}
