"""Statistics of the children of all elements of one name.

They have a fixed size for a number of names: the sequences themselves are not stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

#: Names of children of one element. Beyond it they are not distinguished any more.
MAX_CHILDREN: Final = 1_000


class ChildSequences:
    """Sets of names are integers: bit n stands for `names[n]`."""

    def __init__(self) -> None:
        self.count = 0
        #: Elements, with and without children.
        self.names: list[str] = []
        #: In order of their first occurrence.
        self.present: list[int] = []
        #: Elements that have a child of that name.
        self.follow: list[int] = []
        #: Names that came directly behind that name.
        self.is_overfull = False
        self._index: dict[str, int] = {}
        self._childless = 0
        self._repeated = 0
        self._together: list[int] = []

    def add(self, children: Iterable[str]) -> None:
        self.count += 1
        seen = repeated = 0
        before = -1
        for child in children:
            at = self._index.get(child, -1)
            if at < 0:
                if len(self.names) >= MAX_CHILDREN:
                    self.is_overfull = True
                    continue
                at = self._add_name(child)
            bit = 1 << at
            repeated |= seen & bit
            seen |= bit
            if before >= 0:
                self.follow[before] |= bit
            before = at
        self._childless += not seen
        self._repeated |= repeated
        for at in bits(seen):
            self.present[at] += 1
            self._together[at] |= seen

    def is_required(self, group: int) -> bool:
        """Return True if each element has a child of the group.

        May be False although it is so, for a group of several that occur together.
        """
        if any(self.present[at] == self.count for at in bits(group)):
            return True
        if group == (1 << len(self.names)) - 1:
            return not self._childless
        present = sum(self.present[at] for at in bits(group))
        return present == self.count and self._is_exclusive(group)

    def is_single(self, group: int) -> bool:
        """Return True if no element has more than one child of the group."""
        return not group & self._repeated and self._is_exclusive(group)

    def _is_exclusive(self, group: int) -> bool:
        """Return True if no element has two names of the group."""
        return all(self._together[at] & group == 1 << at for at in bits(group))

    def _add_name(self, name: str) -> int:
        at = self._index[name] = len(self.names)
        self.names.append(name)
        self.present.append(0)
        self.follow.append(0)
        self._together.append(0)
        return at


def bits(number: int) -> Iterable[int]:
    while number:
        low = number & -number
        yield low.bit_length() - 1
        number ^= low
