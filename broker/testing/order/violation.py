"""Violations of the properties of an order."""

from __future__ import annotations

import enum
from typing import NamedTuple


class Property(enum.Enum):
    """The five properties (RCM R13-R18, R49), and that sites agree about the group (R6)."""

    AWARENESS = "awareness"
    RELIABILITY = "reliability"
    FIFO = "fifo"
    GLOBAL_ORDER = "global order"
    ROBUSTNESS = "robustness"
    SITES = "sites"


class Violation(NamedTuple):
    time: float
    property: Property
    text: str

    def __str__(self) -> str:
        return f"{self.time:9.3f} {self.property.value}: {self.text}"
