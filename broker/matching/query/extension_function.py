"""Functions on texts that take libxml2 the square of a text's length, and ours in their place.

libxml2 compares a text that is looked for at every place anew, goes through the alphabet of
`translate` for every character, and copies what it has for every argument of `concat`; nothing can
interrupt it. So calls whose other text is not short are rewritten (`addressing.py`) to functions
of the same names in the envelope's namespace, whose prefix is bound in every query and can not be
bound to anything else. Their work is bounded: in proportion to their texts, and in all by
`MAX_WORK`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from broker.errors import QueryTooExpensive
from broker.event.envelope import NAMESPACE
from broker.matching.query.cursor import ParseInfo, Replacement
from broker.matching.query.lexer import Token
from broker.matching.query.namespaces import ENVELOPE_PREFIX
from broker.matching.query.tree import (
    Axis,
    Expression,
    FunctionCall,
    Literal,
    Path,
    PathStart,
    ValueType,
    subexpressions_of,
)
from broker.matching.query.value_type import value_type

#: Characters of literals that libxml2 may look for (or translate), those of a whole query together:
#: each is compared with each character of a text, in a megabyte some 300 ms in all.
MAX_LIBXML2_SEARCHED = 256
#: Texts that libxml2 may join, and how many times the text of the document may be in the result.
MAX_LIBXML2_CONCATENATED = 16
#: The same for one call of our `concat`: its arguments are all in memory when it is called.
MAX_CONCATENATED = 64
#: What one evaluation may do in these functions: some half a second. The unit is a character
#: searched, 5 ns with the making of its text; a hundred keywords may be looked for in a megabyte.
MAX_WORK = 128 * 1024 * 1024
#: What a character costs that is joined (it is in memory several times) or translated.
_CONCATENATION_WORK = 8
_TRANSLATION_WORK = 8

_INWARD_AXES = frozenset(
    {Axis.CHILD, Axis.ATTRIBUTE, Axis.SELF, Axis.DESCENDANT, Axis.DESCENDANT_OR_SELF}
)
_SEARCH_FUNCTIONS = frozenset({"contains", "substring-before", "substring-after", "translate"})


def record_call_rewrite(
    call: FunctionCall,
    name: Token,
    punctuation: Sequence[Token],
    info: ParseInfo,
    *,
    in_predicate: bool,
) -> None:
    """Have the call rewritten if it needs it; `punctuation` are its brackets and the commas between.

    `within` a predicate it is made for each node, and what it searches may be large each time.
    """
    if call.name in _SEARCH_FUNCTIONS:
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


def _is_short_search(sought: Expression, info: ParseInfo) -> bool:
    if isinstance(sought, Literal):
        if info.searched_characters + len(sought.value) > MAX_LIBXML2_SEARCHED:
            return False
        info.searched_characters += len(sought.value)
        return True
    return value_type(sought) in (ValueType.NUMBER, ValueType.BOOLEAN)


def _reads_outside_context(searched: Expression) -> bool:
    """Whether it is more than a part of the predicate's node, so that it is the same for many."""
    if isinstance(searched, Path):
        if searched.start in (PathStart.DOCUMENT, PathStart.ENVELOPE):
            return True
        if any(step.axis not in _INWARD_AXES for step in searched.steps):
            return True
    return any(map(_reads_outside_context, subexpressions_of(searched)))


def _count_copies(expression: Expression) -> int:
    """How often the text of a whole document may be in the expression's, at most."""
    kind = value_type(expression)
    if kind in (ValueType.NUMBER, ValueType.BOOLEAN) or isinstance(expression, Literal):
        return 0
    if kind is ValueType.STRING and isinstance(expression, FunctionCall) and expression.arguments:
        joined = expression.name == "concat"
        return sum(map(_count_copies, expression.arguments if joined else expression.arguments[:1]))
    return 1


def _split_points(arguments: Sequence[Expression], commas: Sequence[Token]) -> list[Token]:
    """The commas before which there are as many texts as one call of ours may get."""
    ends = []
    held = 0
    for place, argument in enumerate(arguments):
        copies = max(_count_copies(argument), 1)
        held += copies
        if held > MAX_CONCATENATED and place:
            ends.append(commas[place - 1])
            held = copies
    return ends


def _rewrite_call(
    name: Token, punctuation: Sequence[Token], ends: Sequence[Token]
) -> list[Replacement]:
    """`f(a,b)` as `Mspaces:f(string(a),string(b))`: lxml would pass a node-set as a list.

    With commas in `ends` it is `f(f(a,b),c)`, which is right for `concat`.
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
    """Count work of this evaluation; `QueryTooExpensive` when it is too much."""
    done = context.eval_context.get(NAMESPACE, 0) + amount
    context.eval_context[NAMESPACE] = done
    if done > MAX_WORK:
        raise QueryTooExpensive(
            "the query joins, searches or translates texts of too many characters on one event"
        )


def _contains(context: Any, text: str, sought: str) -> bool:
    _count_work(context, len(text))
    return sought in text


def _substring_before(context: Any, text: str, sought: str) -> str:
    _count_work(context, len(text))
    return text[: max(text.find(sought), 0)]


def _substring_after(context: Any, text: str, sought: str) -> str:
    _count_work(context, len(text))
    place = text.find(sought)
    return text[place + len(sought) :] if place >= 0 else ""


def _translate(context: Any, text: str, old: str, new: str) -> str:
    _count_work(context, _TRANSLATION_WORK * (len(text) + len(old)))
    table: dict[int, str | None] = {}
    for place, character in enumerate(old):
        # The first counts where a character is there twice; one without a replacement goes.
        table.setdefault(ord(character), new[place] if place < len(new) else None)
    return text.translate(table)


def _concat(context: Any, *texts: str) -> str:
    # The first may be the result of another call, which has been counted.
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
