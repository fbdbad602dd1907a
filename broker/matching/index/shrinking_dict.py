"""A dict that gives memory back."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")

#: Rebuilt when it holds less than this share of what it held; so seldom that it costs nothing, and
#: with so little in it that nobody waits.
_SHARE = 32


class ShrinkingDict(dict[K, V]):
    """A dict whose room shrinks with it when keys are deleted with `del`; a plain one keeps it."""

    __slots__ = ("_most",)

    def __init__(self) -> None:
        super().__init__()
        self._most = 0

    def __delitem__(self, key: K) -> None:
        self._most = max(self._most, len(self))
        super().__delitem__(key)
        if len(self) * _SHARE < self._most:
            kept = dict(self)
            self.clear()
            self.update(kept)
            self._most = len(kept)
