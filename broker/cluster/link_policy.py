"""What links cost, and what may pass over them."""

from __future__ import annotations

import attrs

from broker.cluster.address import UnitPath, common_prefix
from broker.cluster.neighbours import Neighbour


@attrs.frozen
class LinkPolicy:
    """As the settings say; clearances are ranks of security levels."""

    clearance: int
    """For a link that is trusted and encrypted."""
    cleartext_clearance: int
    untrusted_clearance: int
    group_clearance: int
    """Of the cluster's IP multicast group."""
    validate_always: bool
    """Whether events that pass through are validated even where their sender is trusted (K28)."""
    costs: tuple[int, ...] = (1,)
    """By level: inside the cluster, to another cluster of its unit, and so on (G5)."""

    def cost_of(self, own: UnitPath, far: UnitPath) -> int:
        """Return the cost of a link between nodes of these clusters; the last cost goes on."""
        level = max(len(own), len(far)) - len(common_prefix(own, far))
        return self.costs[min(level, len(self.costs) - 1)]

    def clearance_of(self, neighbour: Neighbour) -> int:
        """The rank of the highest level that may pass over a link (X12)."""
        if not neighbour.trusted:
            return self.untrusted_clearance
        return self.clearance if neighbour.secure else self.cleartext_clearance
