"""The 27 functions of XPath 1.0's core library, and no other."""

from __future__ import annotations

import attrs

from broker.matching.query.tree import ValueType

_B, _N, _S, _NS = ValueType.BOOLEAN, ValueType.NUMBER, ValueType.STRING, ValueType.NODE_SET


@attrs.frozen
class Function:
    """The signature of a core function; `most` is None where any number of arguments may follow.

    `node_set` means that its argument must be one, `reads_context` that without an argument it
    reads the context node.
    """

    name: str
    least: int
    most: int | None
    result: ValueType
    node_set: bool = False
    reads_context: bool = False

    @property
    def arity(self) -> str:
        """The number of arguments in words, for a message."""
        if self.most is None:
            return f"{self.least} or more arguments"
        if self.least != self.most:
            return f"{self.least} to {self.most} arguments"
        if self.least == 0:
            return "no argument"
        return f"{self.least} argument{'s' if self.least > 1 else ''}"


FUNCTIONS: dict[str, Function] = {
    function.name: function
    for function in (
        Function("last", 0, 0, _N),
        Function("position", 0, 0, _N),
        Function("count", 1, 1, _N, node_set=True),
        # `id` reads the context node's document, with an argument too.
        Function("id", 1, 1, _NS, reads_context=True),
        Function("local-name", 0, 1, _S, node_set=True, reads_context=True),
        Function("namespace-uri", 0, 1, _S, node_set=True, reads_context=True),
        Function("name", 0, 1, _S, node_set=True, reads_context=True),
        Function("string", 0, 1, _S, reads_context=True),
        Function("concat", 2, None, _S),
        Function("starts-with", 2, 2, _B),
        Function("contains", 2, 2, _B),
        Function("substring-before", 2, 2, _S),
        Function("substring-after", 2, 2, _S),
        Function("substring", 2, 3, _S),
        Function("string-length", 0, 1, _N, reads_context=True),
        Function("normalize-space", 0, 1, _S, reads_context=True),
        Function("translate", 3, 3, _S),
        Function("boolean", 1, 1, _B),
        Function("not", 1, 1, _B),
        Function("true", 0, 0, _B),
        Function("false", 0, 0, _B),
        # `lang` reads the context node, with an argument too.
        Function("lang", 1, 1, _B, reads_context=True),
        Function("number", 0, 1, _N, reads_context=True),
        Function("sum", 1, 1, _N, node_set=True),
        Function("floor", 1, 1, _N),
        Function("ceiling", 1, 1, _N),
        Function("round", 1, 1, _N),
    )
}
