"""What a node does for its archive by itself, and how its processes tell it each other."""

from __future__ import annotations

import json
from typing import Self

import attrs


@attrs.frozen
class CareRules:
    """By its settings."""

    compact: bool = True
    age_ms: int = 0
    """Hours whose newest event is older go; 0: none does."""
    max_bytes: int = 0
    """The oldest hours go beyond it; 0: none does."""
    max_events: int = 0
    """The same for their events."""

    @property
    def nothing(self) -> bool:
        """Whether this node does nothing for it, and leaves that to others."""
        return not any(attrs.astuple(self))

    def encode(self) -> str:
        """As an argument of a process."""
        return json.dumps(attrs.asdict(self))

    @classmethod
    def decode(cls, said: str) -> Self:
        """What `encode` made."""
        return cls(**json.loads(said))


#: It is left to others.
NO_CARE = CareRules(compact=False)
