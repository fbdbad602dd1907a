"""Checks of values: those that a check accepts are valid by a simple type of a schema.

A check may refuse valid values: their documents are parsed. It takes linear time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import TypeAlias

import msgspec

#: Returns True if the value, as it stands in a document, is valid.
IsValid: TypeAlias = Callable[[bytes], bool]


class SlotCheck(msgspec.Struct, frozen=True, array_like=True):
    """A value must fulfil all parts. Without any part each text is valid."""

    patterns: tuple[tuple[str, ...], ...] = ()
    """Regular expressions of Python that do not backtrack: one of each group must match."""
    values: tuple[str, ...] | None = None
    low: str | None = None
    high: str | None = None
    """Inclusive bounds of numbers, in decimal notation."""
    max_digits: int = 0
    """0: any number."""

    @property
    def is_free(self) -> bool:
        return self == _FREE


_FREE = SlotCheck()


@lru_cache(maxsize=4_096)
def compile_check(check: SlotCheck) -> IsValid:
    parts: list[IsValid] = []
    if check.values is not None:
        parts.append(frozenset(value.encode() for value in check.values).__contains__)
    for group in check.patterns:
        matches = [re.compile(pattern.encode(), re.DOTALL).fullmatch for pattern in group]
        if len(matches) == 1:
            parts.append(_is_match(matches[0]))
        else:
            parts.append(_is_any_match(tuple(matches)))
    if check.max_digits:
        most = check.max_digits
        parts.append(lambda value: len(value.translate(None, b"-.")) <= most)
    if check.low is not None or check.high is not None:
        parts.append(_is_within(check.low, check.high))
    if len(parts) == 1:
        return parts[0]
    return lambda value: all(part(value) for part in parts)


def _is_match(match: Callable[[bytes], object]) -> IsValid:
    return lambda value: match(value) is not None


def _is_any_match(matches: tuple[Callable[[bytes], object], ...]) -> IsValid:
    return lambda value: any(match(value) is not None for match in matches)


def _is_within(low: str | None, high: str | None) -> IsValid:
    least = Decimal("-Infinity") if low is None else Decimal(low)
    most = Decimal("Infinity") if high is None else Decimal(high)

    def is_within(value: bytes) -> bool:
        # The patterns have allowed few digits.
        return least <= Decimal(value.decode()) <= most

    return is_within
