"""Random XPath queries over the names of a type."""

from __future__ import annotations

import random
from collections.abc import Sequence

NAMESPACES = {"q": "urn:p"}

_AXES = (
    *("child", "child", "child", "descendant", "descendant-or-self", "parent", "ancestor"),
    *("ancestor-or-self", "self", "following", "preceding", "following-sibling"),
    *("preceding-sibling", "attribute", "attribute"),
)
_COMPARISONS = ("=", "=", "=", "!=", "<", "<=", ">", ">=")
_NUMBERS = ("0", "1", "2", "-1", "291", "290.5", "-0", "1e3", "0.1", "1 div 0", "0 div 0", "3")
_VARIABLES_OF_TEXT = ("StreamId", "ClientId", "VersionNum", "EventType", "Securitylevel")
_VARIABLES_OF_NUMBER = ("TimeStamp", "SequenceNumber", "Incarnation")
_ENVELOPE = (
    "/Mspaces:Event",
    "/Mspaces:Event//Mspaces:BundleId",
    "/Mspaces:Event/Mspaces:Summary",
    "/Mspaces:Event/Mspaces:EventType/@Liveness",
    "/Mspaces:Event/Mspaces:EventId/Mspaces:ClientId",
    "/Mspaces:Event/Mspaces:EventLinkage/*",
)


class QueryMaker:
    """Makes queries. `structure` decides everything except the literals, which `values` draws."""

    def __init__(
        self,
        elements: Sequence[str],
        attributes: Sequence[str],
        texts: Sequence[str],
        structure: random.Random,
        values: random.Random,
    ) -> None:
        """`texts` occur in documents and contain no quotation marks."""
        self._elements = (*elements, "*")
        self._attributes = (*attributes, "*")
        self._texts = texts
        self._structure = structure
        self._values = values

    def query(self) -> str:
        """Return a query of moderate size."""
        return self._boolean(self._structure.choice([1, 1, 2, 2, 3]))

    # ---------------------------------------------------------------- expressions

    def _boolean(self, depth: int) -> str:
        if depth <= 0:
            return self._comparison(0)
        choose = self._structure.random()
        if choose < 0.35:
            return self._comparison(depth - 1)
        if choose < 0.5:
            joint = self._structure.choice([" and ", " or "])
            operands = [self._boolean(depth - 1) for _ in range(self._structure.choice([2, 2, 3]))]
            return "(" + joint.join(operands) + ")"
        if choose < 0.6:
            return f"not({self._boolean(depth - 1)})"
        if choose < 0.75:
            name = self._structure.choice(["contains", "starts-with"])
            return f"{name}({self._text(depth - 1)}, {self._either_text(depth - 1)})"
        if choose < 0.95:
            return self._path(depth)
        return self._structure.choice(
            ["true()", "false()", "lang('en')", f"boolean({self._path(1)})"]
        )

    def _comparison(self, depth: int) -> str:
        operator = self._structure.choice(_COMPARISONS)
        left = self._operand(depth)
        right = self._literal() if self._structure.random() < 0.7 else self._operand(depth)
        if self._structure.random() < 0.4:
            left, right = right, left
        return f"{left} {operator} {right}"

    def _operand(self, depth: int) -> str:
        kind = self._structure.random()
        if kind < 0.65:
            return self._path(depth)
        if kind < 0.8:
            return self._text(depth)
        if kind < 0.97:
            return self._number(depth)
        return f"({self._boolean(depth - 1)})"

    def _text(self, depth: int) -> str:
        if depth <= 0:
            path = self._path(0)
            return self._structure.choice([path, f"string({path})", f"name({path})"])
        inner = self._text(depth - 1)
        match self._structure.randrange(8):
            case 0:
                return f"concat({inner}, {self._either_text(0)})"
            case 1:
                return f"substring({inner}, {self._structure.choice(_NUMBERS)})"
            case 2:
                first, second = self._structure.choices(_NUMBERS, k=2)
                return f"substring({inner}, {first}, {second})"
            case 3:
                name = self._structure.choice(["substring-before", "substring-after"])
                return f"{name}({inner}, {self._either_text(0)})"
            case 4:
                return f"normalize-space({inner})"
            case 5:
                return f"translate({inner}, 'a2', 'b')"
            case 6:
                return "$" + self._structure.choice((*_VARIABLES_OF_TEXT, "Liveness"))
        return f"string({self._operand(depth - 1)})"

    def _number(self, depth: int) -> str:
        if depth <= 0:
            name = self._structure.choice(["count", "sum", "number", "string-length"])
            return f"{name}({self._path(0)})"
        match self._structure.randrange(6):
            case 0:
                sign = self._structure.choice(["+", "-", "*", "div", "mod"])
                return f"({self._number(depth - 1)} {sign} {self._number_literal()})"
            case 1:
                name = self._structure.choice(["floor", "ceiling", "round", "-"])
                return f"{name}({self._number(depth - 1)})"
            case 2:
                return "$" + self._structure.choice(_VARIABLES_OF_NUMBER)
            case 3:
                return f"number({self._operand(depth - 1)})"
        return self._number(0)

    # ---------------------------------------------------------------- literals

    def _literal(self) -> str:
        return self._text_literal() if self._structure.random() < 0.6 else self._number_literal()

    def _either_text(self, depth: int) -> str:
        return self._text_literal() if self._structure.random() < 0.8 else self._text(depth)

    def _text_literal(self) -> str:
        # An empty literal is part of the template.
        empty = self._structure.random() < 0.1
        text = self._values.choice(self._texts)
        return "''" if empty else f'"{text}"'

    def _number_literal(self) -> str:
        plain = [number for number in _NUMBERS if "div" not in number]
        return self._values.choice(plain)

    # ---------------------------------------------------------------- paths

    def _path(self, depth: int) -> str:
        choose = self._structure.random()
        if choose < 0.04:
            return self._structure.choice(_ENVELOPE) + self._predicates(depth)
        if choose < 0.08:
            return f"({self._path(0)} | {self._path(0)})" + self._predicates(depth)
        if choose < 0.11:
            return self._structure.choice(["(/)", ".", "..", "/*", "//text()", "//node()"])
        start = self._structure.choice(["/", "//", "//", "//", "", ".//"])
        steps = []
        for place in range(self._structure.choice([1, 1, 1, 2, 2, 3])):
            first_of_document = place == 0 and start == "/"
            steps.append(self._step(depth, outermost=first_of_document))
        joined = steps[0]
        for step in steps[1:]:
            joined += self._structure.choice(["/", "/", "/", "//"]) + step
        return start + joined

    def _step(self, depth: int, *, outermost: bool) -> str:
        if outermost:
            return self._structure.choice([self._elements[0], "*"]) + self._predicates(depth)
        choose = self._structure.random()
        if choose < 0.06:
            return self._structure.choice([".", "..", "text()", "node()", "comment()"])
        if choose < 0.25:
            return "@" + self._structure.choice(self._attributes) + self._predicates(depth - 1)
        if choose < 0.75:
            return self._structure.choice(self._elements) + self._predicates(depth)
        axis = self._structure.choice(_AXES)
        names = self._attributes if axis == "attribute" else self._elements
        test = self._structure.choice([*names, "node()"])
        return f"{axis}::{test}" + self._predicates(depth)

    def _predicates(self, depth: int) -> str:
        found = ""
        while self._structure.random() < (0.35 if depth > 0 else 0.1) and len(found) < 80:
            found += f"[{self._predicate(depth - 1)}]"
        return found

    def _predicate(self, depth: int) -> str:
        choose = self._structure.random()
        if choose < 0.25:
            return self._structure.choice(
                [
                    "1",
                    "2",
                    "last()",
                    "position() = 1",
                    "position() > 1",
                    "last() - 1",
                    "position() != last()",
                ]
            )
        if choose < 0.35:
            return f"count(*) {self._structure.choice(_COMPARISONS)} {self._number_literal()}"
        if choose < 0.6:
            own = self._structure.choice([".", "@" + self._structure.choice(self._attributes), "*"])
            sides = [own, self._literal()]
            if self._structure.random() < 0.3:
                sides.reverse()
            return self._structure.choice(_COMPARISONS).join(f" {side} " for side in sides).strip()
        if choose < 0.7:
            inside = self._structure.choice(
                [self._path(0), self._path(0), "string(.)", "number(.)"]
            )
            return inside
        return self._boolean(max(depth, 0))
