"""A dict that frees memory."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")

#: Rebuilt below one in so many of its largest size, which is rare and fast.
_SHARE = 32


class ShrinkingDict(dict[K, V]):
    """A dict whose memory shrinks when keys are deleted with `del`. A plain dict keeps it."""

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
