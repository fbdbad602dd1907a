"""Implication between comparisons of a value with constants. Numbers are read as by libxml2."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

from broker.matching.covering.formula import Atom
from broker.matching.query.number import parse_number

ORDER: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def is_true_of(atom: Atom, value: str) -> bool:
    constant = atom.constant
    if atom.operator == "starts-with":
        return value.startswith(str(constant))
    if atom.operator == "contains":
        return str(constant) in value
    if isinstance(constant, str):
        return (value == constant) == (atom.operator == "=")
    return compare_numbers(atom.operator, parse_number(value), constant)


def compare_numbers(sign: str, value: float, constant: float) -> bool:
    if sign in ORDER:
        return ORDER[sign](value, constant)
    return (value == constant) == (sign == "=")


def atom_implies(one: Atom, other: Atom) -> bool:
    """True if `other` is true of every value of which `one` is true. Transitive and sound."""
    if one.subject != other.subject or one.numeric != other.numeric:
        return False
    if (one.operator, one.constant) == (other.operator, other.constant):
        return type(one.constant) is type(other.constant)
    if isinstance(one.constant, str):
        return _string_implies(one.operator, one.constant, other)
    if isinstance(other.constant, float):
        return _number_implies(one.operator, one.constant, other.operator, other.constant)
    # A number equal to the constant may be written differently, but a text with another number is
    # excluded.
    return (
        one.operator == "="
        and other.operator == "!="
        and parse_number(other.constant) != one.constant
    )


def _string_implies(sign: str, constant: str, other: Atom) -> bool:
    if sign == "=":
        return is_true_of(other, constant)
    if not isinstance(other.constant, str):
        return False
    if sign == "starts-with":
        if other.operator == "starts-with":
            return constant.startswith(other.constant)
        if other.operator == "!=":
            return not other.constant.startswith(constant)
        return other.operator == "contains" and other.constant in constant
    if sign == "contains":
        if other.operator == "!=":
            return constant not in other.constant
        return other.operator == "contains" and other.constant in constant
    return False


def _number_implies(sign: str, bound: float, other: str, limit: float) -> bool:
    if sign == "=":
        return compare_numbers(other, bound, limit)
    if sign == "!=" or other == "=" or math.isnan(bound) or math.isnan(limit):
        return False
    if sign[0] == "<":
        # Ranges below a bound are mirrored.
        return _lower_bound_implies(
            sign.translate(_MIRROR), -bound, other.translate(_MIRROR), -limit
        )
    return _lower_bound_implies(sign, bound, other, limit)


_MIRROR = str.maketrans("<>", "><")


def _lower_bound_implies(sign: str, bound: float, other: str, limit: float) -> bool:
    if other == "!=":
        return limit <= bound if sign == ">" else limit < bound
    if other == ">=" or (other == ">" and sign == ">"):
        return bound >= limit
    return other == ">" and bound > limit
