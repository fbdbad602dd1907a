"""Robustness: no message waits for long, and connected sites get all messages (RCM R18)."""

from __future__ import annotations

from collections.abc import Iterator

from broker.testing.order.run import Process, Run
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


def _longest_commit(run: Run, process: Process, time: float) -> float:
    """Return the end of commits that began before a time: their stamps hold back higher ones."""
    return max((end for begin, end in run.commits[process] if begin <= time), default=0.0)


def robustness(run: Run, timeline: Timeline) -> Iterator[Violation]:
    """Yield messages that waited for too long at a site, or on their way to a connected one."""
    bound = longest_wait(run)
    for process, arrivals in run.received.items():
        times = {each.id: each.time for each in run.deliveries.get(process, ())}
        for id, arrival in arrivals.items():
            end = min(times.get(id, run.end), timeline.lives[process][1])
            if end > arrival + bound and end > _longest_commit(run, process, arrival + bound):
                text = f"{id} waited {end - arrival:.1f} s at {process[0]}"
                yield Violation(arrival, Property.ROBUSTNESS, text)
    yield from _missed_messages(run, timeline, bound)
    for time, process, error in run.failures:
        yield Violation(time, Property.ROBUSTNESS, f"{process[0]} refused a packet: {error}")


def _missed_messages(run: Run, timeline: Timeline, bound: float) -> Iterator[Violation]:
    """Connected sites get equal sequences (L1): the order is checked elsewhere."""
    bound += run.timers.liveness + run.timers.heartbeat
    times = {
        (process, each.id): each.time
        for process, deliveries in run.deliveries.items()
        for each in deliveries
    }
    for id, sent in run.sent.items():
        due = sent.time + bound
        for site in run.sites:
            process = timeline.process_at(site, sent.time)
            if process is None or due > run.end:
                continue
            is_late = times.get((process, id), due + 1.0) > due
            if is_late and timeline.are_connected(site, id.site, sent.time, due):
                text = f"{site} did not get {id} of a connected site"
                yield Violation(sent.time, Property.ROBUSTNESS, text)
