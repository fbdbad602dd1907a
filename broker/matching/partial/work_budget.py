"""What a partial evaluation costs, and where it gives up.

Nodes looked at do not tell: the text of a large element, or a condition made of a thousand others,
is as much work as a long walk. So all of it is counted, in units of about one node looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.matching.partial.formula import Formula, operand_count

#: Bytes of a constant text that count as one unit.
_BYTES_PER_UNIT = 32


class TooExpensive(Exception):
    """The evaluation takes too many steps; the text is for `explain`."""


class WorkBudget:
    """Counts the work of one evaluation. `most` is what may be done before `TooExpensive` is raised."""

    __slots__ = ("limit", "spent")

    def __init__(self, limit: int) -> None:
        self.spent = 0
        self.limit = limit

    def spend(self, amount: int = 1) -> None:
        """So much more was done, or is about to be."""
        self.spent += amount
        if self.spent > self.limit:
            raise TooExpensive("evaluating it on a shape takes too many steps")

    def spend_on_join(self, parts: Sequence[Formula]) -> Sequence[Formula]:
        """Parts that are about to be made one formula."""
        total = 0
        for part in parts:
            total += operand_count(part)
        self.spend(total >> 1)
        return parts

    def spend_on_text(self, text: bytes) -> None:
        """A constant text is about to be read."""
        self.spend(len(text) // _BYTES_PER_UNIT)
