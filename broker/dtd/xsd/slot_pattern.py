"""Patterns of XML Schema as regular expressions of Python that match fewer texts.

Only patterns are translated in which the next character decides each choice: libxml2 is wrong about
some others. All repeats are possessive and all groups atomic: nothing is tried twice, so that
matching takes linear time. Characters beyond ASCII are never matched, so classes are exact.
"""

from __future__ import annotations

from typing import Final

import attrs

_ASCII: Final = frozenset({9, 10, *range(0x20, 0x7F)})
_DIGITS: Final = frozenset(b"0123456789")
_LETTERS: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_SPACES: Final = frozenset(b" \t\n")
#: Neither punctuation nor separators.
_WORD: Final = _LETTERS | _DIGITS | frozenset(b"$+<=>^`|~")
_CLASSES: Final = {"d": _DIGITS, "s": _SPACES, "w": _WORD}
_ESCAPED: Final = frozenset("\\|.?*+(){}-[]^")
_CONTROL: Final = {"n": 10, "t": 9}
#: Nested numbers of repeats, multiplied; depth of groups; characters.
_MAX_REPEATS: Final = 10_000
_MAX_DEPTH: Final = 8
_MAX_LENGTH: Final = 1_000
#: Their meaning outside of classes is not the same in all processors.
_UNCLEAR: Final = frozenset("^$")


class NotTranslatable(Exception):
    """The pattern has a part that is not translated."""


def translate_pattern(pattern: str) -> str:
    """Return an expression for `fullmatch`. Raises `NotTranslatable`."""
    if len(pattern) > _MAX_LENGTH or not pattern.isascii():
        raise NotTranslatable
    translator = _Translator(pattern)
    whole = translator.read_alternatives(1, 0)
    if translator.at != len(pattern):
        raise NotTranslatable
    return whole.expression


@attrs.frozen
class _Part:
    expression: str
    first: frozenset[int]
    """Characters with which a match may begin."""
    further: frozenset[int]
    """Characters that a longer match may have behind the end of a shorter one."""
    is_optional: bool = False
    """True if it matches the empty text."""
    has_counts: bool = False
    """True if a repeat in it has a number."""


_NOTHING: Final = _Part("", frozenset(), frozenset(), is_optional=True)


def _choose(one: _Part, other: _Part) -> _Part:
    if one.first & other.first or (one.is_optional and other.is_optional):
        raise NotTranslatable
    return _Part(
        f"{one.expression}|{other.expression}",
        one.first | other.first,
        one.further
        | other.further
        | (other.first if one.is_optional else frozenset())
        | (one.first if other.is_optional else frozenset()),
        one.is_optional or other.is_optional,
        one.has_counts or other.has_counts,
    )


def _join(one: _Part, other: _Part) -> _Part:
    if one.further & other.first:
        raise NotTranslatable
    return _Part(
        one.expression + other.expression,
        one.first | (other.first if one.is_optional else frozenset()),
        other.further | (one.further | other.first if other.is_optional else frozenset()),
        one.is_optional and other.is_optional,
        one.has_counts or other.has_counts,
    )


def _repeat(part: _Part, quantifier: str, least: int) -> _Part:
    """Return a repeated part; `quantifier` is not empty."""
    is_counted = quantifier.startswith("{")
    if quantifier[0] != "?":
        # libxml2 counts other repeats of such parts differently.
        if part.is_optional or part.has_counts or part.further & part.first:
            raise NotTranslatable
    elif part.is_optional:
        raise NotTranslatable
    is_exact = is_counted and "," not in quantifier
    return _Part(
        part.expression + quantifier,
        part.first,
        part.further if is_exact else part.further | part.first,
        least == 0,
        part.has_counts or is_counted,
    )


class _Translator:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self.at = 0

    def _peek(self) -> str:
        return self._pattern[self.at : self.at + 1]

    def _take(self) -> str:
        sign = self._peek()
        if not sign:
            raise NotTranslatable
        self.at += 1
        return sign

    def read_alternatives(self, repeats: int, depth: int) -> _Part:
        """Read up to a closing parenthesis or the end. `repeats`: of the groups around."""
        if depth > _MAX_DEPTH:
            raise NotTranslatable
        whole = self._read_branch(repeats, depth)
        while self._peek() == "|":
            self.at += 1
            whole = _choose(whole, self._read_branch(repeats, depth))
        return attrs.evolve(whole, expression=f"(?>{whole.expression})")

    def _read_branch(self, repeats: int, depth: int) -> _Part:
        branch = _NOTHING
        while self._peek() not in ("", "|", ")"):
            start = self.at
            # The quantifier behind the atom decides how often its parts repeat.
            self._read_atom(1, depth)
            quantifier, least, most = self._read_quantifier()
            end, self.at = self.at, start
            if repeats * most > _MAX_REPEATS:
                raise NotTranslatable
            atom = self._read_atom(repeats * most, depth)
            self.at = end
            branch = _join(branch, _repeat(atom, quantifier, least) if quantifier else atom)
        return branch

    def _read_quantifier(self) -> tuple[str, int, int]:
        """Return it with its least number, and its greatest or 1."""
        sign = self._peek()
        if sign in ("?", "*", "+") and sign:
            self.at += 1
            return f"{sign}+", int(sign == "+"), 1
        if sign != "{":
            return "", 1, 1
        end = self._pattern.find("}", self.at)
        least, comma, most = self._pattern[self.at + 1 : end].partition(",")
        if end < 0 or not least.isdigit() or (most and not most.isdigit()):
            raise NotTranslatable
        if max(int(least), int(most or 0)) > _MAX_REPEATS or (most and int(most) < int(least)):
            raise NotTranslatable
        self.at = end + 1
        greatest = max(int(least), int(most or 0), 1)
        return f"{{{int(least)}{comma}{most}}}+", int(least), greatest

    def _read_atom(self, repeats: int, depth: int) -> _Part:
        if self._peek() != "(":
            signs = self._read_sign()
            return _Part(_write_class(signs), signs, frozenset())
        self.at += 1
        group = self.read_alternatives(repeats, depth + 1)
        if self._take() != ")":
            raise NotTranslatable
        return group

    def _read_sign(self) -> frozenset[int]:
        sign = self._take()
        if sign == "[":
            return self._read_class()
        if sign == ".":
            return _ASCII - {10}
        if sign == "\\":
            return self._read_escape()
        if sign in "?*+{}])" or sign in _UNCLEAR:
            raise NotTranslatable
        return frozenset({ord(sign)})

    def _read_escape(self) -> frozenset[int]:
        sign = self._take()
        if sign in _ESCAPED:
            return frozenset({ord(sign)})
        if sign in _CONTROL:
            return frozenset({_CONTROL[sign]})
        if sign in _CLASSES:
            return _CLASSES[sign]
        if sign.lower() in _CLASSES:
            return _ASCII - _CLASSES[sign.lower()]
        raise NotTranslatable

    def _read_class(self) -> frozenset[int]:
        negated = self._peek() == "^"
        self.at += negated
        found: frozenset[int] = frozenset()
        first = True
        while (sign := self._take()) != "]" or first:
            first = False
            if sign in ("[", "]", "^"):
                raise NotTranslatable
            if sign == "\\":
                members = self._read_escape()
                if len(members) > 1:
                    found |= members
                    continue
                (start,) = members
            else:
                start = ord(sign)
            following = self._pattern[self.at : self.at + 2]
            if sign == "-" and following[:1] != "]" and found:
                # Only at the ends of a class it is a hyphen for all processors.
                raise NotTranslatable
            if following[:1] == "-" and following[1:] not in ("", "]"):
                self.at += 1
                end = self._read_end_of_range()
                if sign == "-" or end < start:
                    raise NotTranslatable
                found |= frozenset(range(start, end + 1))
            else:
                found |= {start}
        return (_ASCII - found if negated else found) & _ASCII

    def _read_end_of_range(self) -> int:
        sign = self._take()
        if sign == "\\":
            (end,) = members if len(members := self._read_escape()) == 1 else (-1,)
            return end
        if sign in "[-":
            raise NotTranslatable
        return ord(sign)


def _write_class(members: frozenset[int]) -> str:
    if not members:
        return "(?!)"
    signs = "".join(f"\\x{each:02x}" for each in sorted(members))
    return f"[{signs}]"
