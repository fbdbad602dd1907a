"""Statistics of the sequences that expressions accept, for a chain that accepts all of them."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from broker.dtd.derivation.child_sequences import bits
from broker.dtd.derivation.expression import Expression


@attrs.frozen
class _Ends:
    is_nullable: bool
    first: int
    last: int


class ExpressionSequences:
    """The union of the languages of several expressions; sets of names are integers."""

    def __init__(self, expressions: Sequence[Expression]) -> None:
        self.names: list[str] = []
        self.follow: list[int] = []
        self.size = 0
        #: Names in the expressions, with repetitions.
        self._index: dict[str, int] = {}
        self._expressions = expressions
        for expression in expressions:
            self._read(expression)

    def is_required(self, group: int) -> bool:
        names = frozenset(self.names[at] for at in bits(group))
        return all(_count(each, names)[0] for each in self._expressions)

    def is_single(self, group: int) -> bool:
        names = frozenset(self.names[at] for at in bits(group))
        return all(_count(each, names)[1] < 2 for each in self._expressions)

    def _read(self, expression: Expression) -> _Ends:
        ends = self._read_parts(expression)
        if expression.occurrence in ("*", "+"):
            self._add_pairs(ends.last, ends.first)
        if expression.occurrence in ("*", "?"):
            return attrs.evolve(ends, is_nullable=True)
        return ends

    def _read_parts(self, expression: Expression) -> _Ends:
        if not expression.parts:
            self.size += 1
            bit = 1 << self._find(expression.name)
            return _Ends(False, bit, bit)
        parts = [self._read(part) for part in expression.parts]
        whole = parts[0]
        for part in parts[1:]:
            if expression.separator == "|":
                whole = _Ends(
                    whole.is_nullable or part.is_nullable,
                    whole.first | part.first,
                    whole.last | part.last,
                )
                continue
            self._add_pairs(whole.last, part.first)
            whole = _Ends(
                whole.is_nullable and part.is_nullable,
                whole.first | (part.first if whole.is_nullable else 0),
                part.last | (whole.last if part.is_nullable else 0),
            )
        return whole

    def _add_pairs(self, before: int, after: int) -> None:
        for at in bits(before):
            self.follow[at] |= after

    def _find(self, name: str) -> int:
        at = self._index.get(name)
        if at is None:
            at = self._index[name] = len(self.names)
            self.names.append(name)
            self.follow.append(0)
        return at


def _count(expression: Expression, names: frozenset[str]) -> tuple[int, int]:
    """Return the least and the greatest number of the names, at most 2, in a sequence."""
    if not expression.parts:
        least = most = int(expression.name in names)
    else:
        counts = [_count(part, names) for part in expression.parts]
        if expression.separator == "|":
            least, most = min(low for low, _ in counts), max(high for _, high in counts)
        else:
            least, most = sum(low for low, _ in counts), sum(high for _, high in counts)
    if expression.occurrence in ("*", "?"):
        least = 0
    if expression.occurrence in ("*", "+"):
        most *= 2
    return min(least, 2), min(most, 2)
