"""Awareness: reported statuses follow the links (RCM R13, R25, R26; A8)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from broker.testing.order.run import Run, Status
from broker.testing.order.timeline import FOREVER, Intervals, Timeline
from broker.testing.order.violation import Property, Violation
from broker.transport.order.effects import LATE, OVERDUE
from broker.transport.view import LinkState

#: Round trips and the delays of timers.
_GRACE = 1.0


def awareness(run: Run, timeline: Timeline) -> Iterator[Violation]:
    late = [each for each in run.statuses if each.reason in (LATE, OVERDUE)]
    for status in late:
        if status.reason == LATE and not _is_justified(run, status):
            text = f"{status.process[0]} suspects {status.peer} for a late message"
            yield Violation(status.time, Property.AWARENESS, f"{text}, and the path was good")
    for one, other in combinations(run.sites, 2):
        yield from _followed_links(run, timeline, one, other, late)
    yield from _messages_of_disconnected_sites(run, timeline)
    yield from _early_disconnections(run)


def _is_justified(run: Run, status: Status) -> bool:
    """Return True if the path of the late message was slow or silent while it travelled."""
    delivery = next(
        each
        for each in run.deliveries[status.process]
        if each.time >= status.time and each.id.site == status.peer
    )
    sent = run.sent[delivery.id].time
    path = status.peer, status.process[0]
    slow = [(begin, end) for begin, end, *pair in run.slow if tuple(pair) == path]
    silent = [time for time, *pair, _ in run.paths if tuple(pair) == path]
    return any(begin <= status.time and sent <= end for begin, end in slow) or any(
        sent <= time <= status.time for time in silent
    )


def _followed_links(
    run: Run, timeline: Timeline, one: str, other: str, late: list[Status]
) -> Iterator[Violation]:
    """Check the status between two changes of a link, when its time has come."""
    pair = {one, other}
    changes: list[tuple[float, tuple[str, str] | None, bool]] = [(0.0, None, True)]
    changes += [(time, (a, b), up) for time, a, b, up in run.paths if {a, b} == pair]
    changes += [(time, None, True) for time, a, b in run.breaks if {a, b} == pair]
    changes += [(time, None, True) for time, process, _ in run.lives if process[0] in pair]
    changes += [(time, None, True) for begin, end, a, b in run.slow for time in (begin, end)]
    changes.sort(key=lambda change: change[0])
    silent: set[tuple[str, str]] = set()
    waived = Intervals(
        (each.time, each.time + run.timers.liveness + run.timers.heartbeat + _GRACE)
        for each in late
        if {each.process[0], each.peer} == pair
    )
    timers = run.timers
    ends = [*(time for time, *_ in changes[1:]), run.end]
    for (begin, path, is_up), end in zip(changes, ends, strict=True):
        if path is not None:
            (silent.discard if is_up else silent.add)(path)
        is_alive = all(timeline.alive[site].covers(begin, end) for site in pair)
        bound = timers.liveness + timers.silence if silent else timers.reconnect
        due = begin + bound + _GRACE
        if due >= end or not is_alive:
            continue
        for site, peer in ((one, other), (other, one)):
            connected = timeline.connected[site, peer]
            if silent and connected.touches(due, end):
                text = f"{site} sees {peer} as connected, and the path is silent"
                yield Violation(due, Property.AWARENESS, text)
            if not silent and not _is_covered(connected, waived, due, end):
                text = f"{site} does not see {peer} as connected, and the path is good"
                yield Violation(due, Property.AWARENESS, text)


def _is_covered(connected: Intervals, waived: Intervals, begin: float, end: float) -> bool:
    """Return True if one or the other contains each time."""
    time = begin
    for start, stop in sorted(connected.all + waived.all):
        if start <= time < stop:
            time = stop
    return time >= end


def _messages_of_disconnected_sites(run: Run, timeline: Timeline) -> Iterator[Violation]:
    for process, deliveries in run.deliveries.items():
        for each in deliveries:
            if each.id.site != process[0]:
                key = process[0], each.id.site, LinkState.DISCONNECTED
                if timeline.states.get(key, Intervals()).covers(each.time, each.time):
                    text = f"{process[0]} got {each.id} of a disconnected site"
                    yield Violation(each.time, Property.AWARENESS, text)


def _early_disconnections(run: Run) -> Iterator[Violation]:
    suspected: dict[object, float] = {}
    for status in run.statuses:
        key = status.process, status.peer
        if status.state is LinkState.SUSPECTED:
            suspected[key] = status.time
        elif status.state is LinkState.DISCONNECTED:
            if status.time < suspected.get(key, FOREVER) + run.timers.suspect - 1e-6:
                text = f"{status.process[0]} disconnects {status.peer} too early"
                yield Violation(status.time, Property.AWARENESS, text)
