"""What a node does for its archive by itself."""

from __future__ import annotations

import attrs


@attrs.frozen
class CareRules:
    """By its settings."""

    compact: bool = True
    age_ms: int = 0
    """Hours whose newest event is older go; 0: none does."""
    max_bytes: int = 0
    """The oldest hours go beyond it; 0: none does."""

    @property
    def nothing(self) -> bool:
        """Whether this node does nothing for it, and leaves that to others."""
        return not (self.compact or self.age_ms or self.max_bytes)


#: It is left to others.
NO_CARE = CareRules(compact=False)
