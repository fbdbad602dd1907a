"""Numbers as libxml2 reads them, bit for bit (DESIGN 5: "numbers as libxml2 reads them").

Python's `float` is correctly rounded; libxml2 multiplies and adds digit by digit, keeps twenty
digits after the zeros behind the point, and scales by a power of ten. It knows exponents, which
XPath 1.0 does not, and no `+` in front. The same algorithm serves literals in a query and text
turned into numbers.
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
#: So many digits are an integer that a double holds exactly, and so is this power of ten.
_EXACT_DIGITS = 15
_POWERS = tuple(10.0**digits for digits in range(_EXACT_DIGITS + 1))


def parse_plain_number(text: bytes) -> float | None:
    """As `parse_number`, for digits with a point among them at most; None for all else.

    With so few digits nothing is rounded on the way, so one division gives the same bits.
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
    """XPath's `number(text)` as libxml2 computes it; NaN for what it does not read as a number."""
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
    kept = significant[:_FRACTION_DIGITS]
    value = 0.0
    for digit in kept:
        value = value * 10 + float(digit)
    scale = _pow10(zeros + len(kept))
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
