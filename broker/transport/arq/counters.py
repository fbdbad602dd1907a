"""What a connection over datagrams had to mend, for people and programs to read (M9)."""

from __future__ import annotations

import attrs


@attrs.frozen
class ArqCounters:
    """Counts of datagrams, since the connection was made."""

    lost: int = 0
    """Sent, and told by the peer to be missing."""
    repeated: int = 0
    """Sent again."""
    received: int = 0
    """With contents, whether they had come before or not."""
    duplicate: int = 0
    """Received once more."""
    beyond: int = 0
    """Received too far ahead of what was taken, and dropped."""
    forged: int = 0
    """Damaged, or written by a stranger."""

    def plus(self, other: ArqCounters) -> ArqCounters:
        """The sum, of two connections one after the other."""
        mine, theirs = attrs.astuple(self), attrs.astuple(other)
        return ArqCounters(*(one + more for one, more in zip(mine, theirs, strict=True)))
