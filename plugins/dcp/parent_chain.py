"""The ranges that one parent has sent of one sequence."""

from __future__ import annotations

from typing import Final

import attrs

#: Cut of a parent that does not select by the present query.
NEVER: Final = 2**64
_MOST_UNAVAILABLE: Final = 64


@attrs.define
class ParentChain:
    """The ranges of one parent, each of which begins where the last one ended."""

    end: int = -1
    """End of its newest range; -1: none came."""
    start: int = 0
    """Begin of its first range."""
    advanced_at: float = 0.0
    cut: int = 0
    """Behind this AN its ranges have all events of the present query."""
    _unavailable: list[tuple[int, int]] = attrs.field(factory=list)

    @property
    def has_begun(self) -> bool:
        return self.end >= 0

    def begin(self, an: int) -> None:
        """Note that its first range begins behind an AN."""
        self.start = self.end = an
        self.add_unavailable(0, an)

    def add_unavailable(self, after: int, upto: int) -> None:
        """Note a range that the parent can not send."""
        if after < upto:
            self._unavailable = [*self._unavailable[1 - _MOST_UNAVAILABLE :], (after, upto)]

    def unavailable_after(self, an: int) -> int | None:
        """Return the end of what the parent can not send behind an AN; None if it may send that."""
        return max((upto for after, upto in self._unavailable if after <= an < upto), default=None)

    def has_passed(self, an: int) -> bool:
        """Return whether the parent sends nothing behind an AN any more without a request."""
        return self.end > an or self.unavailable_after(an) is not None
