"""Counts of relayed events."""

from __future__ import annotations

from collections import Counter

import attrs


@attrs.define
class RelayOutcomes:
    """Relayed events for this node; `received` is the sum of the other counts."""

    received: int = 0
    logged: int = 0
    unwanted: int = 0
    """From unfiltered ranges, without a local match."""
    duplicate: int = 0
    """Known EventIds: another origin logged the event."""
    not_taken: int = 0
    """Log unavailable or queue full; they come again."""
    refused: Counter[str] = attrs.field(factory=Counter)
    """By error code."""
    turned_away: Counter[str] = attrs.field(factory=Counter)
    """Events in transit or entering a unit, by error code; not in `received`."""
