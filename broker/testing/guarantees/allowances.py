"""Exceptions that the faults of one run justify; the defaults allow none."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from broker.event.gap_reason import LOST, RETENTION, UNREACHABLE
from broker.event.place import Place
from broker.testing.guarantees.records import EventKey, ReportedGap

#: Of gaps that a node may report about events without a known header.
HEADERLESS_REASONS = frozenset({LOST, RETENTION, UNREACHABLE})


def _never_unrecorded(key: EventKey, place: Place) -> bool:
    return False


def _never_justified(key: EventKey, place: Place, gap: ReportedGap) -> bool:
    return False


@attrs.frozen
class Allowances:
    justifies_gap: Callable[[EventKey, Place, ReportedGap], bool] = _never_justified
    """True if a gap may stand for an acknowledged event at a place that it contains."""
    is_unrecorded: Callable[[EventKey, Place], bool] = _never_unrecorded
    """True if no remaining disk shows an event at this place, so no node can report a gap."""
    reasons: frozenset[str] | None = None
    """Justified reasons of gaps; None allows any."""
    unknown_origins: bool = False
    """True if stepped clocks, or nodes without log and link, hide whether an origin began before
    the subscription. Events of an origin outside the first cut are then expected from its first
    delivered event on."""
    fifo_across_origins: bool = True
    """True if a publisher's order also holds across the nodes at which it published."""
    set_back_origins: frozenset[str] = frozenset()
    """Origins whose log was set back to an older copy: they log events again that other nodes
    return. Except at its first place there, such an event may come after its publisher's later
    ones, and again to the next process of a subscription."""
    arrived_in_gaps: bool = False
    """A gap may contain events that the subscription delivered."""
    headerless_reasons: frozenset[str] = HEADERLESS_REASONS
    """Reasons for which a gap may contain only events above the clearance."""
    errors_end_processes: bool = False
    """A subscription may end with an error if its client's next process continues."""
    new_types: frozenset[str] = frozenset()
    """Event types that some nodes did not have when the run began."""


#: A run without faults.
NONE = Allowances()
