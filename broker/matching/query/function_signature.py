"""Signatures of the 27 functions of XPath 1.0's core library; there are no others."""

from __future__ import annotations

import attrs

from broker.matching.query.tree import ValueType

_B, _N, _S, _NS = ValueType.BOOLEAN, ValueType.NUMBER, ValueType.STRING, ValueType.NODE_SET


@attrs.frozen
class FunctionSignature:
    """Signature of a core function; `max_arguments` is None for any number.

    `requires_node_set`: the argument must be a node-set. `reads_context`: without an argument, the
    function reads the context node.
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
