"""Counts of events that queues between nodes dropped."""

from __future__ import annotations

from typing import Final, NamedTuple


class DroppedCount(NamedTuple):
    """Events of one security level that a queue policy dropped between nodes."""

    rank: int
    events: int
    is_coalesced: bool
    """True if newer events replaced all of them."""


#: A queue with the policy `fail` is full. It drops nothing.
QUEUE_FULL: Final = (DroppedCount(0, 0, False),)
