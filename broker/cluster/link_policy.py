"""Policy of links: costs, clearances and validation."""

from __future__ import annotations

import attrs

from broker.cluster.address import UnitPath, common_prefix
from broker.cluster.neighbours import Neighbour
from broker.event.envelope import CLEARTEXT_LEVEL


@attrs.frozen
class LinkPolicy:
    """Costs, clearances (ranks of security levels) and validation of links."""

    clearance: int
    """For a trusted and encrypted link."""
    cleartext_clearance: int
    untrusted_clearance: int
    group_clearance: int
    validate_always: bool
    """Validate transit events even from trusted neighbours (K28)."""
    costs: tuple[int, ...] = (1,)
    """By level: inside the cluster, to another cluster of its unit, and so on (G5)."""

    def cost_of(self, own: UnitPath, far: UnitPath) -> int:
        """The last cost applies to all higher levels."""
        level = max(len(own), len(far)) - len(common_prefix(own, far))
        return self.costs[min(level, len(self.costs) - 1)]

    def clearance_of(self, neighbour: Neighbour) -> int:
        """Return the rank of the highest level that may pass over a link (X12, T37)."""
        if not neighbour.trusted:
            rank = self.untrusted_clearance
        else:
            rank = self.clearance if neighbour.secure else self.cleartext_clearance
        return rank if neighbour.confidential else min(rank, CLEARTEXT_LEVEL.rank)
