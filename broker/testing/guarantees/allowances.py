"""Exceptions that the faults of one run justify; the defaults allow none."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from broker.event.place import Place
from broker.testing.guarantees.records import EventKey, ReportedGap

#: Reasons of gaps that a node may report about events of which it has no header.
HEADERLESS_REASONS = frozenset({"lost", "retention"})


def _never_unrecorded(key: EventKey, place: Place) -> bool:
    return False


def _never_justified(key: EventKey, place: Place, gap: ReportedGap) -> bool:
    return False


@attrs.frozen
class Allowances:
    """Exceptions from the guarantees in one run."""

    justifies_gap: Callable[[EventKey, Place, ReportedGap], bool] = _never_justified
    """True if a gap may stand for an acknowledged event at a place that the gap contains."""
    is_unrecorded: Callable[[EventKey, Place], bool] = _never_unrecorded
    """True if no disk that is left tells that an event was at this place: nobody can tell a gap."""
    reasons: frozenset[str] | None = None
    """Reasons of gaps that the run's faults justify; None allows any."""
    unknown_origins: bool = False
    """Stepped clocks, and nodes without a log and without a link, hide whether an origin began
    before the subscription: events of an origin that the first cut does not name are expected from
    the first delivered one on."""
    fifo_across_origins: bool = True
    """True if a publisher's order also holds over the nodes at which it published."""
    set_back_origins: frozenset[str] = frozenset()
    """Origins that were set back to an older copy: they log events again that others give back. At
    any but its first place there, an event may come behind its publisher's later ones, and to the
    next process of a subscription again."""
    arrived_in_gaps: bool = False
    """A gap may contain events that the subscription delivered."""
    headerless_reasons: frozenset[str] = HEADERLESS_REASONS
    """A gap for one of these reasons may contain nothing but events above the clearance."""
    errors_end_processes: bool = False
    """A subscription may end with an error, if its client's next process goes on."""
    new_types: frozenset[str] = frozenset()
    """Event types that some nodes did not have when the run began."""


#: Nothing is allowed: a run without faults.
NONE = Allowances()
