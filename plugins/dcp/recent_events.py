"""The last events of a node, of all its sequences: whose copy came first, and when."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, NamedTuple

#: Events that a node remembers, in all sequences.
MOST_EVENTS: Final = 65_536


class FirstCopy(NamedTuple):
    digest: int
    """Hash of the document."""
    received_at: float
    parent: Hashable


class RecentEvents:
    """First copies by sequence and AN; the oldest are forgotten."""

    def __init__(self, most: int = MOST_EVENTS) -> None:
        self._most = most
        self._copies: dict[tuple[object, int], FirstCopy] = {}

    def __len__(self) -> int:
        return len(self._copies)

    def find(self, sequence: object, an: int) -> FirstCopy | None:
        return self._copies.get((sequence, an))

    def add(self, sequence: object, an: int, copy: FirstCopy) -> None:
        copies = self._copies
        copies[sequence, an] = copy
        if len(copies) > self._most:
            del copies[next(iter(copies))]
