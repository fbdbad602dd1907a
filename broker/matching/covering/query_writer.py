"""Conversion of formulas back to queries, for widening."""

from __future__ import annotations

import math

from broker.errors import BadQuery, QueryTooExpensive
from broker.event.envelope import XML_NAMESPACE
from broker.matching.covering.formula import (
    SELF,
    Atom,
    Connective,
    Constant,
    Exists,
    Formula,
    Not,
    PathStep,
)
from broker.matching.paths.pattern import LabelKind
from broker.matching.query.number import parse_number
from broker.matching.query.query import Query, parse_query
from broker.matching.query.tree import PathStart

_TRIES = 16


def write_query(formula: Formula) -> Query:
    """Return the query; `true()` if the formula exceeds the limits of queries.

    Raises `ValueError` for a part that XPath can not express here (see `widening.py`).
    """
    writer = _Writer()
    text = writer.write(formula)
    try:
        return parse_query(text, {prefix: uri for uri, prefix in writer.prefixes.items()})
    except (BadQuery, QueryTooExpensive):
        return parse_query("true()")


def format_number(value: float, sign: str) -> str | None:
    """Format a number for XPath, rounded so that the comparison excludes nothing more.

    None if libxml2 reads no such number nearby.
    """
    outward = -math.inf if sign[0] == ">" else math.inf
    for _ in range(_TRIES):
        if not math.isfinite(value):
            return None
        text = repr(abs(value))
        read = parse_number(text) * math.copysign(1.0, value)
        if read == value or (sign[0] == ">" and read < value) or (sign[0] == "<" and read > value):
            return f"-{text}" if value < 0 else text
        if sign not in ("<", "<=", ">", ">="):
            return None
        value = math.nextafter(value, outward)
    return None


class _Writer:
    def __init__(self) -> None:
        self.prefixes: dict[str, str] = {}

    def write(self, formula: Formula) -> str:
        match formula:
            case Constant(value=value):
                return "true()" if value else "false()"
            case Not(operand=operand):
                return f"not({self.write(operand)})"
            case Connective(operator=sign, operands=operands):
                return "(" + f" {sign} ".join(map(self.write, operands)) + ")"
            case Exists(origin=origin, steps=steps):
                return self._path(origin, steps)
            case Atom():
                return self._atom(formula)
        raise ValueError(f"{formula!r} can not be written")

    def _atom(self, atom: Atom) -> str:
        if atom.subject != SELF and atom.subject[0] != "$":
            raise ValueError(f"{atom!r} can not be written")
        sign, constant = atom.operator, atom.constant
        if isinstance(constant, str):
            quote = "'" if '"' in constant else '"'
            literal = f"{quote}{constant}{quote}"
        else:
            number = format_number(constant, sign)
            if number is None:
                raise ValueError(f"{constant!r} can not be written")
            literal = number
        if sign in ("starts-with", "contains"):
            return f"{sign}({atom.subject}, {literal})"
        return f"{atom.subject} {sign} {literal}"

    def _path(self, origin: PathStart, steps: tuple[PathStep, ...]) -> str:
        text = ""
        for place, step in enumerate(steps):
            slashes = "//" if step.descendant else "/"
            if not place and origin is PathStart.CONTEXT:
                slashes = ".//" if step.descendant else ""
            test = self._test(step)
            if not place and origin is PathStart.ENVELOPE:
                test = "Mspaces:Event"
            predicates = "".join(f"[{self.write(each)}]" for each in step.predicates)
            text += f"{slashes}{test}{predicates}"
        return text

    def _test(self, step: PathStep) -> str:
        if step.positional_text:
            raise ValueError("a positional predicate can not be written")
        if step.kind is LabelKind.TEXT:
            return "text()"
        if step.kind is None:
            target = "" if step.local is None else repr(step.local)
            return f"{(step.namespace or 'node()')[:-1]}{target})"
        at = "@" if step.kind is LabelKind.ATTRIBUTE else ""
        local = step.local or "*"
        if not step.namespace:
            return f"{at}{local}"
        if step.namespace == XML_NAMESPACE:
            return f"{at}xml:{local}"
        prefix = self.prefixes.setdefault(step.namespace, f"n{len(self.prefixes) + 1}")
        return f"{at}{prefix}:{local}"
