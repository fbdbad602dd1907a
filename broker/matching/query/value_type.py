"""The type of an expression, which XPath 1.0 lets us know before it runs.

libxml2 finds a wrong type only when it evaluates (`Invalid type`); a subscriber should hear of it
at once, and the index relies on it.
"""

from __future__ import annotations

from broker.matching.query.function_signature import CORE_FUNCTIONS
from broker.matching.query.tree import (
    Binary,
    Chain,
    Expression,
    Filter,
    FunctionCall,
    Literal,
    Negation,
    Number,
    Path,
    ValueType,
    Variable,
)
from broker.matching.query.variables import VARIABLE_TYPES

_COMPARISONS = frozenset({"=", "!=", "<", "<=", ">", ">="})


def value_type(expression: Expression) -> ValueType:
    """The type of what the expression evaluates to."""
    match expression:
        case Path() | Filter():
            return ValueType.NODE_SET
        case Number() | Negation():
            return ValueType.NUMBER
        case Literal():
            return ValueType.STRING
        case Variable(name=name):
            return VARIABLE_TYPES[name]
        case FunctionCall(name=name):
            return CORE_FUNCTIONS[name].result_type
        case Binary(operator=operator):
            return ValueType.BOOLEAN if operator in _COMPARISONS else ValueType.NUMBER
        case Chain(operator=operator):
            return ValueType.NODE_SET if operator == "|" else ValueType.BOOLEAN
