"""Ranges of blocks in which a site may lack events."""

from __future__ import annotations

import attrs

MOST_RANGES = 256


@attrs.define
class MissingRange:
    site: str
    last: tuple[int, int]
    """Incarnation and number of the last missing message."""
    low: int
    high: int | None = None
    """None until a later event of the site shows the end."""

    def contains(self, block: int) -> bool:
        return self.low <= block and (self.high is None or block <= self.high)


class MissingRanges:
    """The stamp of a missing message lies between those of its site before and after it.

    Beyond `MOST_RANGES` the two lowest ranges become one, with the blocks between them.
    """

    def __init__(self) -> None:
        self._ranges: list[MissingRange] = []
        self._open: dict[str, MissingRange] = {}
        self._newest: dict[str, int] = {}
        """The newest block with an event, by site."""

    def contains(self, block: int) -> bool:
        return any(each.contains(block) for each in self._ranges)

    @property
    def is_open(self) -> bool:
        """True if a later event of a site ends one of its ranges."""
        return bool(self._open)

    def add_site(self, site: str, block: int) -> None:
        """Record a block with events of a site."""
        self._newest[site] = max(block, self._newest.get(site, block))

    def add_event(self, site: str, id: tuple[int, int], block: int) -> int | None:
        """Record an event of a site: incarnation and number, and its block.

        Return the first block above a range that ends here.
        """
        self.add_site(site, block)
        if not self._open:
            return None
        found = self._open.get(site)
        if found is None or id <= found.last:
            return None
        del self._open[site]
        found.high = max(block, found.low)
        return found.high + 1

    def add_missing(self, site: str, last: tuple[int, int], lowest: int) -> int:
        """Begin a range, and return its first block. `lowest` is the lowest block of all."""
        low = self._newest.get(site, lowest)
        found = self._open.get(site)
        if found is not None:
            found.last = max(found.last, last)
            return found.low
        self._open[site] = added = MissingRange(site, last, low)
        self._ranges.append(added)
        if len(self._ranges) > MOST_RANGES:
            self._join_lowest()
        return low

    def add_blocks(self, low: int, high: int) -> None:
        """Record blocks that are incomplete for another reason."""
        self._ranges.append(MissingRange("", (0, 0), low, high))
        if len(self._ranges) > MOST_RANGES:
            self._join_lowest()

    def _join_lowest(self) -> None:
        closed = [each for each in self._ranges if each.high is not None]
        # At most one range of each site is open.
        first, second = sorted(closed, key=lambda each: each.low)[:2]
        assert first.high is not None and second.high is not None
        first.high = max(first.high, second.high)
        self._ranges.remove(second)
