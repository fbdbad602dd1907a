"""Lexer for queries (XPath 1.0, section 3.7).

`*` and `div` are name tests where an operand may stand, and operators elsewhere. Three extensions
of libxml2 are accepted: `1 or2`, an exponent (`1e3`), and blanks between a prefix and its colon in
a step without an axis (`p :a`).
"""

from __future__ import annotations

import enum
import re

import attrs

from broker.errors import BadQuery
from broker.matching.query.tree import Axis


class TokenKind(enum.Enum):
    NUMBER = "a number"
    LITERAL = "a string"
    VARIABLE = "a variable"
    NAME_TEST = "a name"
    NODE_TYPE = "a node type"
    FUNCTION = "a function"
    AXIS = "an axis"
    OPERATOR = "an operator"
    SLASH = "'/'"
    DOUBLE_SLASH = "'//'"
    LEFT_PAREN = "'('"
    RIGHT_PAREN = "')'"
    LEFT_BRACKET = "'['"
    RIGHT_BRACKET = "']'"
    COMMA = "','"
    DOT = "'.'"
    DOUBLE_DOT = "'..'"
    AT = "'@'"
    END = "the end of the query"

    # Members are unique objects; `Enum.__hash__` hashes the name, which is slower.
    __hash__ = object.__hash__


# Not frozen: that takes three times as long to create, and there are many tokens.
@attrs.define(eq=False)
class Token:
    """One token: `text` without quotation marks, `$` and `::`; offsets count from 0."""

    kind: TokenKind
    text: str
    position: int
    end: int

    def __str__(self) -> str:
        if self.kind in (
            TokenKind.NUMBER,
            TokenKind.LITERAL,
            TokenKind.NAME_TEST,
            TokenKind.FUNCTION,
            TokenKind.OPERATOR,
        ):
            return f"{self.kind.value} {self.text[:40]!r}"
        return str(self.kind.value)


#: libxml2 has the last word on name characters beyond ASCII. The sets list forbidden characters,
#: because `re` compiles a range to U+10FFFF a hundred times slower.
NAME = r"[^\x00-@\[-^`{-\x7f][^\x00-,/:-@\[-^`{-\x7f]*"
_BLANK = r"[ \t\r\n]"
#: An operand, leading blanks included. A group's index gives its kind; at None its text gives it.
#: Group 1 is a name, 2 the bracket behind it, and 3 the colons behind it.
_OPERAND = re.compile(
    rf"{_BLANK}*(?:"
    rf"({NAME}(?::(?:\*|{NAME}))?|\*)(?={_BLANK}*(?:(\()|(::?))|)"
    r"|((?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]*)?)"
    r"|(\"[^\"]*\"|'[^']*')"
    rf"|\$({NAME}(?::{NAME})?)"
    r"|(//|\.\.|[()\[\],@/.])"
    r"|(!=|<=|>=|[+=<>|-])"
    r")"
)
_OPERAND_KINDS: tuple[TokenKind | None, ...] = (
    None,
    TokenKind.NAME_TEST,
    TokenKind.FUNCTION,
    TokenKind.NAME_TEST,
    TokenKind.NUMBER,
    TokenKind.LITERAL,
    TokenKind.VARIABLE,
    None,
    TokenKind.OPERATOR,
)
_OPERATOR = re.compile(rf"{_BLANK}*(?:(//|[()\[\],@/])|(and|or|div|mod|!=|<=|>=|[*+=<>|-]))")
_OPERATOR_KINDS: tuple[TokenKind | None, ...] = (None, None, TokenKind.OPERATOR)
_SPACED_LOCAL_NAME = re.compile(rf"{_BLANK}+(:(?:\*|{NAME}))")
_PUNCTUATION = {kind.value[1:-1]: kind for kind in TokenKind if kind.value[0] == "'"}
_NODE_TYPES = frozenset({"node", "text", "comment", "processing-instruction"})
_AXES = frozenset(axis.value for axis in Axis)
#: Behind a token of these kinds stands an operator or nothing; behind any other token an operand.
_ENDS_OPERAND = frozenset(
    {
        TokenKind.NUMBER,
        TokenKind.LITERAL,
        TokenKind.VARIABLE,
        TokenKind.NAME_TEST,
        TokenKind.RIGHT_PAREN,
        TokenKind.RIGHT_BRACKET,
        TokenKind.DOT,
        TokenKind.DOUBLE_DOT,
    }
)


def tokenize(text: str) -> list[Token]:
    """Return the tokens of the text, with END last; raise `BadQuery` for invalid text."""
    found: list[Token] = []
    offset = 0
    operand_expected = True
    while True:
        match, kinds = None, _OPERATOR_KINDS
        if not operand_expected:
            match = _OPERATOR.match(text, offset)
        if match is None:
            match, kinds = _OPERAND.match(text, offset), _OPERAND_KINDS
            if match is None:
                break
        group = match.lastindex or 0
        start, offset = match.span(group)
        written = match[group]
        kind = kinds[group] or _PUNCTUATION[written]
        if kind is TokenKind.LITERAL:
            written = written[1:-1]
        elif kind is TokenKind.VARIABLE:
            start -= 1
        elif kinds is _OPERAND_KINDS and group in (2, 3):
            written = match[1]
            start, offset = match.span(1)
            if group == 3:
                token = _read_colons(match, found)
                kind, written, offset = token.kind, token.text, token.end
            elif written[-1] == "*":
                kind = TokenKind.NAME_TEST
            elif written in _NODE_TYPES:
                kind = TokenKind.NODE_TYPE
        found.append(Token(kind, written, start, offset))
        operand_expected = kind not in _ENDS_OPERAND
    rest = text[offset:].lstrip(" \t\r\n")
    if rest:
        raise _unreadable(rest[0], len(text) - len(rest))
    found.append(Token(TokenKind.END, "", len(text), len(text)))
    return found


def bad_query_at(message: str, position: int) -> BadQuery:
    return BadQuery(message, line=1, column=position + 1)


def _read_colons(match: re.Match[str], before: list[Token]) -> Token:
    """Return the token of a name with colons behind it: an axis, or a prefix."""
    name, (start, end) = match[1], match.span(1)
    if match[3] == "::" and name != "*" and ":" not in name:
        if name not in _AXES:
            raise bad_query_at(f"there is no axis {name[:40]!r} in XPath 1.0", start)
        return Token(TokenKind.AXIS, name, start, match.end(3))
    if name != "*" and ":" not in name:
        if not before or before[-1].kind not in (TokenKind.AT, TokenKind.AXIS):
            local = _SPACED_LOCAL_NAME.match(match.string, end)
            if local is not None:
                name, end = name + local[1], local.end()
                # A bracket behind it makes it a function, whose name has a prefix.
                if name[-1] != "*" and match.string[end:].lstrip(" \t\r\n")[:1] == "(":
                    return Token(TokenKind.FUNCTION, name, start, end)
    return Token(TokenKind.NAME_TEST, name, start, end)


def _unreadable(character: str, position: int) -> BadQuery:
    if character in "\"'":
        return bad_query_at(f"the string has no closing {character}", position)
    if character == "$":
        return bad_query_at("a variable's name must follow '$' without a blank", position)
    return bad_query_at(f"{character!r} can not stand here", position)
