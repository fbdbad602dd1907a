"""Static types: of the core functions, the envelope variables, and any expression.

libxml2 detects a wrong type only during evaluation.
"""

from __future__ import annotations

import attrs

from broker.matching.query import tree
from broker.matching.query.tree import ValueType

_B, _N, _S, _NS = ValueType


@attrs.frozen
class FunctionSignature:
    """Signature of a core function; `max_arguments` is None for any number.

    `reads_context`: without an argument, it reads the context node.
    """

    name: str
    min_arguments: int
    max_arguments: int | None
    result_type: ValueType
    requires_node_set: bool = False
    reads_context: bool = False

    @property
    def arity_text(self) -> str:
        if self.max_arguments is None:
            return f"{self.min_arguments} or more arguments"
        if self.min_arguments != self.max_arguments:
            return f"{self.min_arguments} to {self.max_arguments} arguments"
        if self.min_arguments == 0:
            return "no argument"
        return f"{self.min_arguments} argument{'s' if self.min_arguments > 1 else ''}"


CORE_FUNCTIONS: dict[str, FunctionSignature] = {
    function.name: function
    for function in (
        FunctionSignature("last", 0, 0, _N),
        FunctionSignature("position", 0, 0, _N),
        FunctionSignature("count", 1, 1, _N, requires_node_set=True),
        # `id` reads the context node's document, with an argument too.
        FunctionSignature("id", 1, 1, _NS, reads_context=True),
        FunctionSignature("local-name", 0, 1, _S, requires_node_set=True, reads_context=True),
        FunctionSignature("namespace-uri", 0, 1, _S, requires_node_set=True, reads_context=True),
        FunctionSignature("name", 0, 1, _S, requires_node_set=True, reads_context=True),
        FunctionSignature("string", 0, 1, _S, reads_context=True),
        FunctionSignature("concat", 2, None, _S),
        FunctionSignature("starts-with", 2, 2, _B),
        FunctionSignature("contains", 2, 2, _B),
        FunctionSignature("substring-before", 2, 2, _S),
        FunctionSignature("substring-after", 2, 2, _S),
        FunctionSignature("substring", 2, 3, _S),
        FunctionSignature("string-length", 0, 1, _N, reads_context=True),
        FunctionSignature("normalize-space", 0, 1, _S, reads_context=True),
        FunctionSignature("translate", 3, 3, _S),
        FunctionSignature("boolean", 1, 1, _B),
        FunctionSignature("not", 1, 1, _B),
        FunctionSignature("true", 0, 0, _B),
        FunctionSignature("false", 0, 0, _B),
        # `lang` reads the context node, with an argument too.
        FunctionSignature("lang", 1, 1, _B, reads_context=True),
        FunctionSignature("number", 0, 1, _N, reads_context=True),
        FunctionSignature("sum", 1, 1, _N, requires_node_set=True),
        FunctionSignature("floor", 1, 1, _N),
        FunctionSignature("ceiling", 1, 1, _N),
        FunctionSignature("round", 1, 1, _N),
    )
}

#: Name without the dollar sign -> type. Numbers are doubles: integers above 2**53 are rounded.
VARIABLE_TYPES: dict[str, ValueType] = {
    "StreamId": ValueType.STRING,
    "ClientId": ValueType.STRING,
    "TimeStamp": ValueType.NUMBER,
    "SequenceNumber": ValueType.NUMBER,
    "Incarnation": ValueType.NUMBER,
    "VersionNum": ValueType.STRING,
    "EventType": ValueType.STRING,
    "Securitylevel": ValueType.STRING,
    "Liveness": ValueType.STRING,
    "Validation": ValueType.STRING,
}


def value_type(expression: tree.Expression) -> ValueType:
    match expression:
        case tree.Path() | tree.Filter():
            return ValueType.NODE_SET
        case tree.Number() | tree.Negation():
            return ValueType.NUMBER
        case tree.Literal():
            return ValueType.STRING
        case tree.Variable(name=name):
            return VARIABLE_TYPES[name]
        case tree.FunctionCall(name=name):
            return CORE_FUNCTIONS[name].result_type
        case tree.Binary(operator=operator):
            return ValueType.BOOLEAN if operator in tree.MIRRORED_OPERATORS else ValueType.NUMBER
        case tree.Chain(operator=operator):
            return ValueType.NODE_SET if operator == "|" else ValueType.BOOLEAN


def is_positional(predicate: tree.Expression) -> bool:
    return value_type(predicate) is ValueType.NUMBER or any(
        isinstance(each, tree.FunctionCall) and each.name in ("position", "last")
        for each in tree.walk(predicate)
    )
