"""Guarantees of `docs/guarantees.md` as code: observations of a run, and their violations.

Without input, output or clock, for simulation and soak.
"""

from __future__ import annotations

from broker.testing.guarantees.allowances import Allowances
from broker.testing.guarantees.checker import check, is_complete
from broker.testing.guarantees.observations import Observations
from broker.testing.guarantees.records import (
    Delivered,
    End,
    EventKey,
    Guarantee,
    Kind,
    Published,
    ReportedGap,
    Violation,
)
from broker.testing.guarantees.report import report
from broker.testing.guarantees.subscriber import Process, Subscriber

__all__ = [
    "Allowances",
    "Delivered",
    "End",
    "EventKey",
    "Guarantee",
    "Kind",
    "Observations",
    "Process",
    "Published",
    "Subscriber",
    "ReportedGap",
    "Violation",
    "check",
    "is_complete",
    "report",
]
