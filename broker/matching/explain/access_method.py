"""Access methods of the index for the queries of a template (checklist F5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from broker.matching.engine.binding import AlwaysBinding, IndexedBinding, bind_formula
from broker.matching.engine.index_conjunction import ConjunctionReader
from broker.matching.engine.query_family import QueryFamily
from broker.matching.index.grid_index import GridIndex
from broker.matching.index.interval_index import IntervalIndex
from broker.matching.index.parameter import Literal, Operator, Parameter
from broker.matching.index.predicate_index import HashIndex, build_index
from broker.matching.index.shared_index import IndexPool
from broker.matching.partial.formula import Formula
from broker.matching.partial.function_library import format_number
from broker.matching.partial.template import TemplateInstance

#: Characters shown of a literal or a value.
MAX_SHOWN: Final = 120


def access_method(parameters: Sequence[Parameter]) -> str:
    """Return the name of a method that `docs/matching.md` describes."""
    if not parameters:
        return "nothing"
    chosen = build_index(parameters)
    match chosen:
        case HashIndex():
            return "prefix" if chosen.has_prefix else "hash"
        case IntervalIndex():
            return "ranges"
        case GridIndex():
            return "grid"
        case _:
            return "bitmaps"


def access_method_on_shape(instance: TemplateInstance, formula: Formula) -> str:
    """Return the access method for the formula that partial evaluation left of the template."""
    binding = bind_formula(
        QueryFamily(instance.template, 0, IndexPool()), formula, ConjunctionReader()
    )
    if binding is None or isinstance(binding, AlwaysBinding):
        return "nothing"
    if not isinstance(binding, IndexedBinding):
        return "bitmaps"
    forms = dict.fromkeys(term.form for term in binding.conjunctions)
    return " and ".join(sorted({access_method(form.signature.parameters) for form in forms}))


def format_literal(literal: Literal) -> str:
    if isinstance(literal, bytes):
        return f"'{truncate(literal.decode())}'"
    return format_number(literal).decode()


def format_operator(operator: Operator) -> str:
    return operator.value.removeprefix("text ")


def truncate(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"
