"""Static type of an expression, known in XPath 1.0 before evaluation.

libxml2 detects a wrong type only during evaluation (`Invalid type`). A subscriber gets the error at
once, and the index relies on the types.
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
