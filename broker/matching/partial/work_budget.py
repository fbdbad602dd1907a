"""What a partial evaluation costs, and where it gives up.

Nodes looked at do not tell: the text of a large element, or a condition made of a thousand others,
is as much work as a long walk. So all of it is counted, in units of about one node looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.matching.partial.formula import Formula, breadth

#: Bytes of a constant text that count as one unit.
_BYTES = 32


class TooDear(Exception):
    """The evaluation takes too many steps; the text is for `explain`."""


class Work:
    """Counts the work of one evaluation. `most` is what may be done before `TooDear` is raised."""

    __slots__ = ("done", "most")

    def __init__(self, most: int) -> None:
        self.done = 0
        self.most = most

    def spend(self, amount: int = 1) -> None:
        """So much more was done, or is about to be."""
        self.done += amount
        if self.done > self.most:
            raise TooDear("evaluating it on a shape takes too many steps")

    def join(self, parts: Sequence[Formula]) -> Sequence[Formula]:
        """Parts that are about to be made one formula."""
        total = 0
        for part in parts:
            total += breadth(part)
        self.spend(total >> 1)
        return parts

    def read(self, text: bytes) -> None:
        """A constant text is about to be read."""
        self.spend(len(text) // _BYTES)
