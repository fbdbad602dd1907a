"""What links cost, and what may pass over them."""

from __future__ import annotations

import attrs

from broker.cluster.neighbours import Neighbour


@attrs.frozen
class LinkTerms:
    """As the settings say; clearances are ranks of security levels."""

    clearance: int
    """For a link that is trusted and encrypted."""
    cleartext_clearance: int
    untrusted_clearance: int
    group_clearance: int
    """Of the cluster's IP multicast group."""
    validate_always: bool
    """Whether events that pass through are validated even where their sender is trusted (K28)."""
    cost: int = 1

    def clearance_of(self, neighbour: Neighbour) -> int:
        """The rank of the highest level that may pass over a link (X12)."""
        if not neighbour.trusted:
            return self.untrusted_clearance
        return self.clearance if neighbour.secure else self.cleartext_clearance
