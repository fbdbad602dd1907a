"""Members by the stretches into which the bounds of their windows cut the line (F5).

Between two neighbouring bounds no member comes or goes. So a value is looked up once, by bisection,
whatever the widths of the windows are; and each stretch lists its members.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from broker.matching.index.comparison import comparison
from broker.matching.index.holes import Hole, Operator
from broker.matching.index.member import Member
from broker.matching.index.rest import Rest
from broker.matching.index.shrinking import ShrinkingDict
from broker.matching.index.windows import windows

#: Stretches that a member may take when it comes; wider ones are indexed by bitmaps.
MAX_STRETCHES = 64
#: Members of one stretch, which are compared one by one.
MAX_LISTED = 128
#: Whoever takes too many stretches by now has to go when a stretch with more members is cut in two:
#: so what all stretches list together stays in proportion to the members.
_CROWDED = 16


class Intervals:
    """Members by those holes that are given with their positions; one window is among them."""

    __slots__ = (
        "_alone",
        "_bounds",
        "_compare",
        "_inclusive",
        "_rest",
        "_stretches",
        "_uses",
        "_window",
        "size",
    )

    def __init__(self, holes: Mapping[int, Hole], members: Iterable[Member] = ()) -> None:
        self._window = windows(holes)[0]
        self._inclusive = holes[self._window.upper].operator is Operator.LESS_EQUAL
        #: Whether the window is all that is to be compared.
        self._alone = len(holes) == 2
        self._compare = comparison((position, hole.operator) for position, hole in holes.items())
        #: Distinct and ascending; a stretch lies before each, and one behind the last.
        self._bounds: list[float] = []
        self._stretches: list[tuple[Member, ...]] = [()]
        #: How many windows have a bound.
        self._uses = ShrinkingDict[float, int]()
        self._rest = Rest(holes)
        self.size = 0
        for member in members:
            self.add(member)

    def add(self, member: Member) -> None:
        """Take in a member that is not here."""
        self.size += 1
        low, high = self._bounds_of(member)
        if not -math.inf < low < high < math.inf:
            # No value is in it, or it has no two ends.
            self._rest.add(member)
            return
        self._cut(low)
        self._cut(high)
        first, behind = self._reach(low, high)
        listed = max(map(len, self._stretches[first:behind]), default=0)
        if behind - first > MAX_STRETCHES or listed >= MAX_LISTED:
            self._join(low)
            self._join(high)
            self._rest.add(member)
            return
        self._stretches[first:behind] = [(*each, member) for each in self._stretches[first:behind]]

    def remove(self, member: Member) -> None:
        """Forget a member that is here."""
        self.size -= 1
        if not self._rest.discard(member):
            self._withdraw(member, *self._bounds_of(member))

    def members(self) -> list[Member]:
        """Everyone."""
        listed = {member: None for stretch in self._stretches for member in stretch}
        return [*listed, *self._rest]

    @property
    def at(self) -> int:
        """The position of a column that has the window's values."""
        return self._window.lower

    def near(self, value: float) -> tuple[Member, ...] | None:
        """The members to compare with a row of this value; None if that is not told in short."""
        return None if self._rest else self._stretches[bisect_right(self._bounds, value)]

    def find_rows(
        self,
        columns: Sequence[Sequence[Any]],
        rows: int,
        _known: dict[Any, Any] | None = None,
    ) -> list[tuple[int, Sequence[Member]]]:
        """As `AccessPath.find_rows`."""
        found: list[tuple[int, Sequence[Member]]] = []
        bounds, stretches = self._bounds, self._stretches
        hits = [
            (row, members)
            for row, value in enumerate(columns[self._window.lower])
            if (members := stretches[bisect_right(bounds, value)])
        ]
        if self._alone:
            # Only at a bound itself may a member be listed that the value does not satisfy.
            uses, values = self._uses, columns[self._window.lower]
            found += [hit for hit in hits if values[hit[0]] not in uses]
            hits = [hit for hit in hits if values[hit[0]] in uses]
        if hits:
            self._compare(hits, columns, found)
        found += self._rest.find_rows(columns, rows)
        return found

    def _bounds_of(self, member: Member) -> tuple[float, float]:
        """The first value that may be in its window, and the first that is beyond."""
        literals, window = member.literals, self._window
        low, high = cast(float, literals[window.lower]), cast(float, literals[window.upper])
        return low, math.nextafter(high, math.inf) if self._inclusive else high

    def _reach(self, low: float, high: float) -> tuple[int, int]:
        """The first stretch of a window whose bounds are here, and the one behind its last."""
        # A bound itself belongs to the stretch behind it.
        return bisect_left(self._bounds, low) + 1, bisect_left(self._bounds, high) + 1

    def _cut(self, bound: float) -> None:
        """Have a bound, for one more window."""
        uses = self._uses.get(bound, 0)
        self._uses[bound] = uses + 1
        if uses:
            return
        at = bisect_left(self._bounds, bound)
        if len(self._stretches[at]) > _CROWDED:
            self._relieve(at)
            at = bisect_left(self._bounds, bound)
        self._bounds.insert(at, bound)
        self._stretches.insert(at, self._stretches[at])

    def _join(self, bound: float) -> None:
        """One window less has the bound. What is on both sides of it is the same without any."""
        self._uses[bound] -= 1
        if not self._uses[bound]:
            del self._uses[bound]
            at = bisect_left(self._bounds, bound)
            del self._bounds[at], self._stretches[at]

    def _relieve(self, at: int) -> None:
        """Put the widest member of a stretch aside, if it is too wide by now."""
        reaches = {member: self._reach(*self._bounds_of(member)) for member in self._stretches[at]}
        widest = max(reaches, key=lambda member: reaches[member][1] - reaches[member][0])
        first, behind = reaches[widest]
        if behind - first > MAX_STRETCHES:
            self._withdraw(widest, *self._bounds_of(widest))
            self._rest.add(widest)

    def _withdraw(self, member: Member, low: float, high: float) -> None:
        first, behind = self._reach(low, high)
        self._stretches[first:behind] = [
            tuple([each for each in stretch if each is not member])
            for stretch in self._stretches[first:behind]
        ]
        self._join(low)
        self._join(high)
