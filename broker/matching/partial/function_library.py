"""XPath's core function library on values, with libxml2's results.

Texts are well-formed UTF-8 bytes, numbers are floats.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache
from typing import Final

from lxml import etree

from broker.matching.query.extension_function import translate_text
from broker.matching.query.number import parse_number, parse_plain_number

_WORD = re.compile(rb"[^ \t\n\r]+")
#: Maximum digits of a numeric envelope field.
_FIELD_DIGITS = 19
#: Positions and lengths that need no rounding.
_SMALL_INTEGERS = {float(number): number for number in range(1, 257)}
_MAX_CACHED_NUMBERS = 16_384
#: Bytes of the longest cached text.
_MAX_CACHED_LENGTH = 64


class _NumberCache(dict[bytes, float]):
    """Cache from text to number. A dict, because a hit then needs no Python call."""

    def __missing__(self, text: bytes) -> float:
        value = parse_plain_number(text)
        if value is None:
            value = parse_number(text.decode())
        if len(text) <= _MAX_CACHED_LENGTH:
            if len(self) >= _MAX_CACHED_NUMBERS:
                self.clear()
            self[text] = value
        return value


#: `number(text)`.
number: Final[Callable[[bytes], float]] = _NumberCache().__getitem__


def parse_digits(text: bytes) -> float:
    """Number of a digits-only envelope field; NaN otherwise, such events are rejected later."""
    return float(int(text)) if len(text) <= _FIELD_DIGITS and text.isdigit() else math.nan


def format_number(value: float) -> bytes:
    return str(_FORMAT(_CONTEXT, n=value)).encode()


def concat(*texts: bytes) -> bytes:
    """`concat(...)`; also the string-value of a node with several texts."""
    return b"".join(texts)


def sum_numbers(*values: float) -> float:
    """`sum(...)`, added in order without compensation."""
    result = 0.0
    for value in values:
        result += value
    return result


def string_length(text: bytes) -> float:
    return float(len(text.decode()))


def normalize_space(text: bytes) -> bytes:
    """`normalize-space(text)`, for XML's four white-space characters only."""
    return b" ".join(_WORD.findall(text))


def substring_before(text: bytes, mark: bytes) -> bytes:
    place = text.find(mark)
    return text[:place] if place > 0 else b""


def substring_after(text: bytes, mark: bytes) -> bytes:
    place = text.find(mark)
    return text[place + len(mark) :] if place >= 0 else b""


def substring_from(text: bytes, start: float) -> bytes:
    """`substring(text, start)`, also from minus infinity."""
    return text if start < 1 else substring(text, start, math.inf)


def fixed_substring(start: float, count: float) -> Callable[[bytes], bytes] | None:
    """Return `substring` for small integer arguments as one function, else None.

    Equal arguments give the identical function, so that sources are equal.
    """
    whole, size = _SMALL_INTEGERS.get(start), _SMALL_INTEGERS.get(count)
    return None if whole is None or size is None else _make_slice(whole - 1, whole - 1 + size)


# Bounded by the pairs of such positions; evicting one would duplicate it.
@cache
def _make_slice(begin: int, end: int) -> Callable[[bytes], bytes]:
    start, count = begin + 1.0, float(end - begin)
    return lambda text: text[begin:end] if text.isascii() else substring(text, start, count)


def substring(text: bytes, start: float, count: float) -> bytes:
    """`substring(text, start, count)`: characters from `round(start)` on."""
    first = round_half_up(start)
    end = first + round_half_up(count)
    # Comparisons with NaN are false, so the result is empty.
    if not (first < end and end > 1):
        return b""
    characters = text.decode()
    begin = max(first, 1.0)
    if begin > len(characters):
        return b""
    stop = min(end, len(characters) + 1.0)
    return characters[int(begin) - 1 : int(stop) - 1].encode()


def translate(text: bytes, old: bytes, new: bytes) -> bytes:
    return translate_text(text.decode(), old.decode(), new.decode()).encode()


def round_half_up(value: float) -> float:
    """`round(value)`: halves go up; NaN and the infinities are unchanged."""
    if not math.isfinite(value):
        return value
    if -0.5 <= value < 0.5:
        return math.copysign(0.0, value)
    whole = math.floor(value)
    return float(whole + 1 if value - whole >= 0.5 else whole)


def floor(value: float) -> float:
    return float(math.floor(value)) if math.isfinite(value) else value


def ceiling(value: float) -> float:
    return float(math.ceil(value)) if math.isfinite(value) else value


def divide(left: float, right: float) -> float:
    """`left div right` by IEEE 754."""
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def modulo(left: float, right: float) -> float:
    """`left mod right`, with the sign of `left`."""
    if right == 0 or math.isinf(left) or math.isnan(left) or math.isnan(right):
        return math.nan
    return math.fmod(left, right)


def is_nonzero(value: float) -> bool:
    return value != 0 and value == value


_CONTEXT = etree.Element("none")
_FORMAT = etree.XPath("string($n)", regexp=False, smart_strings=False)
