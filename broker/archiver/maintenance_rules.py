"""The maintenance that a node does, and its encoding for process arguments."""

from __future__ import annotations

import json
from typing import Self

import attrs


@attrs.frozen
class MaintenanceRules:
    """The names are keys of the encoding."""

    compact: bool = True
    age_ms: int = 0
    """Hours expire when their newest event is older; 0: never."""
    max_bytes: int = 0
    """The oldest hours expire beyond this size; 0: no limit."""
    max_events: int = 0
    """The oldest hours expire beyond this count; 0: no limit."""

    @property
    def is_empty(self) -> bool:
        """Return whether other nodes do all maintenance."""
        return not any(attrs.astuple(self))

    def encode(self) -> str:
        return json.dumps(attrs.asdict(self))

    @classmethod
    def decode(cls, text: str) -> Self:
        return cls(**json.loads(text))


NO_MAINTENANCE = MaintenanceRules(compact=False)
