"""Cold re-initialisation of a node that finds no parent of a lower level (DCP D65, T44).

The node drops its children, so that its level may rise, and searches again. It does so only while
nodes with room have refused it for its level. A random wait, a pause between two of them, and the
children's permission bound the cascade: a child without another live parent gives it later.
"""

from __future__ import annotations

from collections.abc import Collection
from random import Random
from typing import Final

from plugins.dcp.connection import Connection

#: Seconds.
_MOST_WAIT: Final = 1.0
_PERMISSION_SECONDS: Final = 6.0
_PAUSE: Final = 20.0


class Reinitialisation:
    def __init__(self, random: Random) -> None:
        self.count = 0
        self._random = random
        self._due_at: float | None = None
        self._asked: set[Connection] | None = None
        """Children whose permission is missing; None: none was asked."""
        self._until = 0.0
        self._not_before = 0.0

    def consider(self, is_useful: bool, now: float) -> None:
        """Plan one if it would raise the resilience; else drop the plan."""
        if not is_useful:
            self._due_at = self._asked = None
        elif self._due_at is None and self._asked is None:
            wait = self._random.uniform(0.0, _MOST_WAIT)
            self._due_at = max(now + wait, self._not_before)

    def take_due(self, children: Collection[Connection], now: float) -> bool:
        """Return True once when the children are to be asked."""
        if self._due_at is None or now < self._due_at:
            return False
        self._due_at = None
        self._asked = set(children)
        self._until = now + _PERMISSION_SECONDS
        return True

    def permit(self, child: Connection) -> None:
        """Note that a child gives its permission, or has gone."""
        if self._asked is not None:
            self._asked.discard(child)

    def take_permitted(self, now: float) -> bool:
        """Return True once when the node may drop its children."""
        if self._asked is None or (self._asked and now < self._until):
            return False
        self._asked = None
        self._not_before = now + _PAUSE
        self.count += 1
        return True

    def next_timeout(self) -> float | None:
        if self._asked is not None:
            return self._until if self._asked else 0.0
        return self._due_at
