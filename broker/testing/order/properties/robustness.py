"""Robustness: no message waits for long, and connected sites get all messages (RCM R18)."""

from __future__ import annotations

from collections.abc import Iterator

from broker.testing.order.run import Run
from broker.testing.order.timeline import Timeline
from broker.testing.order.violation import Property, Violation

#: "A few round trips".
ROUND_TRIPS = 6


def longest_wait(run: Run) -> float:
    """Return the bound between arrival and delivery of a message."""
    if run.variant in ("real-time", "hybrid"):
        return run.settings.delta + 2 * run.skew
    timers = run.timers
    bound = timers.liveness + timers.heartbeat + 2 * ROUND_TRIPS * run.delay
    if run.variant == "sequencer":
        # Several sequencers may fail one after another.
        bound += 2 * run.settings.patience * (len(run.sites) - 2)
    return bound


def robustness(run: Run, timeline: Timeline) -> Iterator[Violation]:
    bound = longest_wait(run)
    for process, arrivals in run.received.items():
        times = {each.id: each.time for each in run.deliveries.get(process, ())}
        for id, arrival in arrivals.items():
            end = min(times.get(id, run.end), timeline.lives[process][1])
            if end > arrival + bound:
                text = f"{id} waited {end - arrival:.1f} s at {process[0]}"
                yield Violation(arrival, Property.ROBUSTNESS, text)
    for time, process, error in run.failures:
        yield Violation(time, Property.ROBUSTNESS, f"{process[0]} refused a packet: {error}")
