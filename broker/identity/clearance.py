"""Security levels against clearances (M27, X12)."""

from __future__ import annotations

from broker.event.envelope import SecurityLevel


def is_cleared(clearance: SecurityLevel, level: SecurityLevel) -> bool:
    """True if `clearance` covers `level` (M27, X12)."""
    return level.rank <= clearance.rank
