"""Counters of a connection over datagrams, for people and programs (M9)."""

from __future__ import annotations

import attrs


@attrs.frozen
class ArqCounters:
    """Counts of datagrams since the connection was made."""

    lost: int = 0
    """Sent, and reported missing by the peer."""
    repeated: int = 0
    """Sent again."""
    received: int = 0
    """With contents, first arrivals and repetitions."""
    duplicate: int = 0
    """Received again."""
    beyond: int = 0
    """Received beyond the window, and dropped."""
    forged: int = 0
    """Damaged, or written without the key."""

    def plus(self, other: ArqCounters) -> ArqCounters:
        """Return the sum of the counts of two connections."""
        mine, theirs = attrs.astuple(self), attrs.astuple(other)
        return ArqCounters(*(one + more for one, more in zip(mine, theirs, strict=True)))
