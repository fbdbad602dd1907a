"""State of a monitored link for `status`."""

from __future__ import annotations

from broker.transport.layer import IMonitorCore
from broker.transport.view import View


def describe_link(view: View, monitor: IMonitorCore | None, now: float) -> dict[str, object]:
    """Return plain values; times in seconds from now, None for those that are not known."""
    clock = None if monitor is None else monitor.clock_offset
    return {
        "state": view.state.value,
        "reason": view.reason,
        "state_since": view.since - now,
        "next_change": None if view.until is None else view.until - now,
        "round_trip": None if monitor is None else monitor.round_trip,
        "clock_offset": clock and clock.offset,
        "clock_uncertainty": clock and clock.uncertainty,
    }
