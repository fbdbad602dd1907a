"""Who may see what: security levels against clearances (M27, X12)."""

from __future__ import annotations

from broker.event.envelope import SecurityLevel


def is_cleared(clearance: SecurityLevel, level: SecurityLevel) -> bool:
    """Whether someone cleared up to `clearance` may handle an event of this `level`."""
    return level.rank <= clearance.rank
