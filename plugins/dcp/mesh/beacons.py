"""Beacons: signs of life of the roots, which carry the path on which they came (N8, N16)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from plugins.dcp.control import Beacon

#: Roots whose newest beacon is known.
_MOST_ROOTS: Final = 256


class Beacons:
    """A root makes a beacon each second; other nodes pass the first copy of each on."""

    def __init__(self, name: str, wall_clock: Callable[[], int], *, is_root: bool) -> None:
        """`wall_clock` gives ms since 1970."""
        self.delays: dict[str, int] = {}
        """Ms that the newest beacon of each root was on its way, by the clocks of both."""
        self._name = name
        self._wall_clock = wall_clock
        self._number = wall_clock() if is_root else 0
        self._newest: dict[str, int] = {}

    def make(self) -> Beacon:
        """Return the next beacon of this root. Numbers rise through restarts."""
        self._number += 1
        return Beacon(self._name, self._number, self._wall_clock(), 1.0, (self._name,))

    def receive(self, beacon: Beacon, loss: float) -> Beacon | None:
        """Return the beacon to pass on; None if this one is no newer than another copy.

        `loss` is that of the link on which it came.
        """
        if beacon.number <= self._newest.get(beacon.root, -1):
            return None
        if beacon.root not in self._newest and len(self._newest) >= _MOST_ROOTS:
            return None
        self._newest[beacon.root] = beacon.number
        self.delays[beacon.root] = self._wall_clock() - beacon.sent
        path = (*beacon.path, self._name)
        survival = beacon.survival * (1 - loss)
        return Beacon(beacon.root, beacon.number, beacon.sent, survival, path)
