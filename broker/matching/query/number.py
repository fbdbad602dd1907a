"""Numbers as libxml2 parses them, bit for bit (DESIGN 5: "numbers as libxml2 reads them").

libxml2 multiplies and adds digit by digit, keeps twenty digits after the leading zeros of the
fraction, and scales by a power of ten. It accepts exponents, and no leading `+`.
"""

from __future__ import annotations

import math
import re

_NUMBER = re.compile(
    r"[ \t\n\r]*(-?)(?:([0-9]+)(?:\.([0-9]*))?|\.([0-9]+))"
    r"(?:[eE]([-+]?)([0-9]*))?[ \t\n\r]*",
    re.ASCII,
)
_FRACTION_DIGITS = 20
_EXPONENT_CAP = 1_000_000
#: Integers of so many digits, and this power of ten, are exact in a double.
_EXACT_DIGITS = 15
_POWERS = tuple(10.0**digits for digits in range(_EXACT_DIGITS + 1))


def parse_plain_number(text: bytes) -> float | None:
    """Return the value of `parse_number` for at most digits, a minus and a point; else None.

    So few digits need no rounding.
    """
    negative = text[:1] == b"-"
    whole, point, fraction = text[negative:].partition(b".")
    if not whole.isdigit() or len(whole) > _EXACT_DIGITS:
        return None
    value = float(int(whole))
    if point:
        if not fraction.isdigit() or len(fraction) > _EXACT_DIGITS:
            return None
        value += int(fraction) / _POWERS[len(fraction)]
    return -value if negative else value


def parse_number(text: str) -> float:
    """XPath's `number(text)` as libxml2 computes it; NaN for invalid text."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        return math.nan
    sign, whole, fraction, bare_fraction, exponent_sign, exponent_digits = match.groups()
    value = 0.0
    for digit in whole or "":
        value = value * 10 + float(digit)
    value += _parse_fraction(fraction or bare_fraction or "")
    if sign:
        value = -value
    if exponent_digits is None:
        return value * 1.0
    return value * _parse_power_of_ten(exponent_digits, negative=exponent_sign == "-")


def _parse_fraction(digits: str) -> float:
    significant = digits.lstrip("0")
    zeros = len(digits) - len(significant)
    leading = significant[:_FRACTION_DIGITS]
    value = 0.0
    for digit in leading:
        value = value * 10 + float(digit)
    scale = _pow10(zeros + len(leading))
    return value / scale


def _parse_power_of_ten(digits: str, *, negative: bool) -> float:
    exponent = 0
    for digit in digits:
        if exponent < _EXPONENT_CAP:
            exponent = exponent * 10 + int(digit)
    return _pow10(-exponent if negative else exponent)


def _pow10(exponent: int) -> float:
    try:
        return math.pow(10.0, exponent)
    except OverflowError:
        return math.inf
