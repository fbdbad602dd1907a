"""Work limit of a partial evaluation.

Reading a large text or joining many conditions takes as long as visiting nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.matching.partial.formula import Formula, operand_count


class Undecidable(Exception):
    """A shape does not decide an expression; the text is the reason for `explain`."""


#: Bytes of a constant text per unit.
_BYTES_PER_UNIT = 32


class TooExpensive(Exception):
    """The evaluation exceeds its work limit; the text is for `explain`."""


class WorkBudget:
    """Counts the work of one evaluation; beyond `limit`, `TooExpensive` is raised."""

    __slots__ = ("limit", "spent")

    def __init__(self, limit: int) -> None:
        self.spent = 0
        self.limit = limit

    def spend(self, amount: int = 1) -> None:
        self.spent += amount
        if self.spent > self.limit:
            raise TooExpensive("evaluating it on a shape takes too many steps")

    def spend_on_join(self, parts: Sequence[Formula]) -> Sequence[Formula]:
        total = 0
        for part in parts:
            total += operand_count(part)
        self.spend(total >> 1)
        return parts

    def spend_on_text(self, text: bytes) -> None:
        self.spend(len(text) // _BYTES_PER_UNIT)
