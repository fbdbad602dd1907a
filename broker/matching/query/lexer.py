"""Lexer for queries (XPath 1.0, section 3.7).

A character's meaning depends on the token before it: `*` and `div` are name tests where an operand
may stand, and operators elsewhere. Three extensions of libxml2 are accepted, because it evaluates
the query:

- An operator's name needs no blank behind it (`1 or2`).
- A number may have an exponent (`1e3`).
- Blanks may stand between a prefix and its colon in a step without an axis (`p :a`; `bare` below).
"""

from __future__ import annotations

import enum
import re

import attrs

from broker.errors import BadQuery
from broker.matching.query.tree import Axis


class TokenKind(enum.Enum):
    """Kind of a token, with its name in error messages."""

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
_NAME_CHARACTER = r"[^\x00-,/:-@\[-^`{-\x7f]"
NAME = rf"[^\x00-@\[-^`{{-\x7f]{_NAME_CHARACTER}*"
_BLANKS = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]*)?")
_LITERAL = re.compile(r"\"([^\"]*)\"|'([^']*)'")
_VARIABLE = re.compile(rf"\$({NAME}(?::{NAME})?)")
_NAME_TEST = re.compile(rf"{NAME}(?::(?:\*|{NAME}))?|\*")
_SPACED_NAME_TEST = re.compile(rf"({NAME})[ \t\r\n]+(:(?:\*|{NAME}))")
_AXIS = re.compile(rf"({NAME})[ \t\r\n]*::")
_CALL = re.compile(r"[ \t\r\n]*\(")
_OPERATOR = re.compile(r"and|or|div|mod|!=|<=|>=|[*+=<>|-]")
_PUNCTUATION = {
    "(": TokenKind.LEFT_PAREN,
    ")": TokenKind.RIGHT_PAREN,
    "[": TokenKind.LEFT_BRACKET,
    "]": TokenKind.RIGHT_BRACKET,
    ",": TokenKind.COMMA,
    "@": TokenKind.AT,
    "/": TokenKind.SLASH,
    "//": TokenKind.DOUBLE_SLASH,
    ".": TokenKind.DOT,
    "..": TokenKind.DOUBLE_DOT,
}
_PUNCTUATION_MARK = re.compile(r"//|\.\.|[()\[\],@/.]")
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


#: Fast patterns for most operands and operators, leading blanks included. A group's index gives its
#: kind; at None the matched text gives it. `_read_operand` and `_read_operator` handle the rest.
_WHOLE_NAME = rf"{NAME}(?::{NAME})?(?!{_NAME_CHARACTER})"
_COMMON_OPERAND = re.compile(
    r"[ \t\r\n]*(?:"
    rf"({_WHOLE_NAME}(?![ \t\r\n]*[:(])|\*)"
    rf"|({_WHOLE_NAME})(?=[ \t\r\n]*\()"
    r"|((?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]*)?)"
    r"|(\"[^\"]*\"|'[^']*')"
    r"|(//|\.\.|[()\[\],@/.])"
    r"|(!=|<=|>=|[+=<>|-])"
    r")"
)
_OPERAND_KINDS: tuple[TokenKind | None, ...] = (
    None,
    TokenKind.NAME_TEST,
    TokenKind.FUNCTION,
    TokenKind.NUMBER,
    TokenKind.LITERAL,
    None,
    TokenKind.OPERATOR,
)
_COMMON_OPERATOR = re.compile(r"[ \t\r\n]*(?:(//|[()\[\],@/])|(and|or|div|mod|!=|<=|>=|[*+=<>|-]))")
_OPERATOR_KINDS: tuple[TokenKind | None, ...] = (None, None, TokenKind.OPERATOR)


def tokenize(text: str) -> list[Token]:
    """Return the tokens of the text, with END last; raise `BadQuery` for invalid text."""
    found: list[Token] = []
    offset = 0
    operand_expected = True
    while True:
        if operand_expected:
            match, kinds = _COMMON_OPERAND.match(text, offset), _OPERAND_KINDS
        else:
            match, kinds = _COMMON_OPERATOR.match(text, offset), _OPERATOR_KINDS
        if match is not None and (group := match.lastindex) is not None:
            start, offset = match.span(group)
            written = match[group]
            kind = kinds[group] or _PUNCTUATION[written]
            if kind is TokenKind.LITERAL:
                written = written[1:-1]
            elif kind is TokenKind.FUNCTION and written in _NODE_TYPES:
                kind = TokenKind.NODE_TYPE
            found.append(Token(kind, written, start, offset))
        else:
            offset = _skip_blanks(text, offset)
            if offset == len(text):
                break
            bare = not found or found[-1].kind not in (TokenKind.AT, TokenKind.AXIS)
            token = (_read_operand if operand_expected else _read_operator)(text, offset, bare)
            found.append(token)
            kind, offset = token.kind, token.end
        operand_expected = kind not in _ENDS_OPERAND
    found.append(Token(TokenKind.END, "", len(text), len(text)))
    return found


def bad_query_at(message: str, position: int) -> BadQuery:
    return BadQuery(message, line=1, column=position + 1)


def _skip_blanks(text: str, offset: int) -> int:
    match = _BLANKS.match(text, offset)
    return offset if match is None else match.end()


def _read_operator(text: str, offset: int, bare: bool) -> Token:
    match = _OPERATOR.match(text, offset)
    if match is not None:
        return Token(TokenKind.OPERATOR, match.group(), offset, match.end())
    # Slashes continue a path; the parser judges brackets, commas and misplaced tokens.
    return _read_operand(text, offset, bare)


def _read_operand(text: str, offset: int, bare: bool) -> Token:
    character = text[offset]
    if character in "\"'":
        match = _LITERAL.match(text, offset)
        if match is None:
            raise bad_query_at(f"the string has no closing {character}", offset)
        return Token(TokenKind.LITERAL, match.group()[1:-1], offset, match.end())
    if character == "$":
        match = _VARIABLE.match(text, offset)
        if match is None:
            raise bad_query_at("a variable's name must follow '$' without a blank", offset)
        return Token(TokenKind.VARIABLE, match.group(1), offset, match.end())
    if match := _PUNCTUATION_MARK.match(text, offset):
        number = _NUMBER.match(text, offset) if match.group() == "." else None
        if number is None:
            return Token(_PUNCTUATION[match.group()], match.group(), offset, match.end())
        return Token(TokenKind.NUMBER, number.group(), offset, number.end())
    if match := _NUMBER.match(text, offset):
        return Token(TokenKind.NUMBER, match.group(), offset, match.end())
    if match := _OPERATOR.match(text, offset):
        # `and` and `div` are names here, and `*` is a name test.
        if match.group() != "*" and not match.group().isalpha():
            return Token(TokenKind.OPERATOR, match.group(), offset, match.end())
    return _read_name(text, offset, bare)


def _read_name(text: str, offset: int, bare: bool) -> Token:
    if match := _AXIS.match(text, offset):
        if match.group(1) not in _AXES:
            raise bad_query_at(f"there is no axis {match.group(1)[:40]!r} in XPath 1.0", offset)
        return Token(TokenKind.AXIS, match.group(1), offset, match.end())
    spaced = _SPACED_NAME_TEST.match(text, offset) if bare else None
    match = spaced or _NAME_TEST.match(text, offset)
    if match is None:
        raise bad_query_at(f"{text[offset]!r} can not stand here", offset)
    name = "".join(match.groups()) or match.group()
    if name.endswith("*") or _CALL.match(text, match.end()) is None:
        return Token(TokenKind.NAME_TEST, name, offset, match.end())
    kind = TokenKind.NODE_TYPE if name in _NODE_TYPES else TokenKind.FUNCTION
    return Token(kind, name, offset, match.end())
