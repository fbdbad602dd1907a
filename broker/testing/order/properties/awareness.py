"""Awareness: reported statuses follow the links (RCM R13, R25, R26; A8)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, permutations

from broker.testing.order.run import Run, Status
from broker.testing.order.timeline import FOREVER, Interval, Intervals, Timeline
from broker.testing.order.violation import Property, Violation
from broker.transport.order.effects import LATE, OVERDUE
from broker.transport.view import LinkState

#: Round trips and the delays of timers.
_GRACE = 1.0


def awareness(run: Run, timeline: Timeline) -> Iterator[Violation]:
    suspicions = [each for each in run.statuses if each.reason in (LATE, OVERDUE)]
    for status in suspicions:
        if not _is_justified(run, status):
            text = f"{status.process[0]} suspects {status.peer} as {status.reason}"
            yield Violation(status.time, Property.AWARENESS, f"{text}, and the path was good")
    for one, other in combinations(run.sites, 2):
        yield from _followed_links(run, timeline, one, other, suspicions)
    yield from _messages_of_disconnected_sites(run, timeline)
    yield from _early_disconnections(run)


def _is_justified(run: Run, status: Status) -> bool:
    """Return True if a path was slow or silent, or, in real time, a commit.

    It is the path of the late message while it travelled, and with shared bodies the way of the
    request for a lost one. The message follows the suspicion. Numbers may pass several sites: if
    none came, it is any path.
    """
    here, there = status.process[0], status.peer
    if status.reason == OVERDUE:
        begin = status.time - run.settings.entry_patience - 4 * run.settings.patience
        pairs = permutations(run.sites, 2)
        return any(_was_bad(run, pair, begin, status.time) for pair in pairs)
    following = run.deliveries[status.process][status.position :]
    late = next((each for each in following if each.id.site == there), None)
    if late is None or late.id not in run.sent:
        return False
    sent = run.sent[late.id]
    if run.variant in ("real-time", "hybrid"):
        if sent.commit > run.settings.delta - run.delay - run.skew:
            return True
    paths = [(there, here), (here, there)] if run.shares_bodies else [(there, here)]
    return any(_was_bad(run, path, sent.time, status.time) for path in paths)


def _was_bad(run: Run, path: tuple[str, ...], begin: float, end: float) -> bool:
    """Return True if a path was slow or silent at a time of the interval."""
    slow = [(since, until) for since, until, *pair in run.slow if tuple(pair) == path]
    is_up = True
    for time, *pair, state in run.paths:
        if tuple(pair) == path:
            if begin <= time <= end:
                return True
            if time < begin:
                is_up = state
    return not is_up or any(since <= end and begin <= until for since, until in slow)


def _followed_links(
    run: Run, timeline: Timeline, one: str, other: str, suspicions: list[Status]
) -> Iterator[Violation]:
    """Check the status between two changes of a link, when its time has come."""
    pair = {one, other}
    changes: list[tuple[float, tuple[str, str] | None, bool]] = [(0.0, None, True)]
    changes += [(time, (a, b), up) for time, a, b, up in run.paths if {a, b} == pair]
    changes += [(time, None, True) for time, a, b in run.breaks if {a, b} == pair]
    changes += [(time, None, True) for time, process, _ in run.lives if process[0] in pair]
    joined = run.joined(one, other)
    if joined < run.end:
        changes.append((joined, None, True))
    slow = [(begin, end) for begin, end, a, b in run.slow if {a, b} == pair]
    changes += [(time, None, True) for times in slow for time in times]
    changes.sort(key=lambda change: change[0])
    silent: set[tuple[str, str]] = set()
    waived = [
        (each.time, each.time + run.timers.liveness + run.timers.heartbeat + _GRACE)
        for each in suspicions
        if {each.process[0], each.peer} == pair
    ]
    waived += _long_commits(run, pair)
    timers = run.timers
    ends = [*(time for time, *_ in changes[1:]), run.end]
    for (begin, path, is_up), end in zip(changes, ends, strict=True):
        if path is not None:
            (silent.discard if is_up else silent.add)(path)
        is_alive = all(timeline.alive[site].covers(begin, end) for site in pair)
        bound = timers.liveness + timers.silence if silent else timers.reconnect
        due = begin + bound + _GRACE
        if due >= end or not is_alive or begin < joined:
            continue
        for site, peer in ((one, other), (other, one)):
            connected = timeline.connected[site, peer]
            if silent and connected.touches(due, end):
                text = f"{site} sees {peer} as connected, and the path is silent"
                yield Violation(due, Property.AWARENESS, text)
            if not silent and not _is_covered(connected, waived, due, end):
                text = f"{site} does not see {peer} as connected, and the path is good"
                yield Violation(due, Property.AWARENESS, text)


def _long_commits(run: Run, pair: set[str]) -> list[Interval]:
    """Return the times of long commits: their stamps are below the clock that a site needs."""
    commits = [each for process, some in run.commits.items() if process[0] in pair for each in some]
    return [(begin, end + _GRACE / 2) for begin, end in commits if end > begin + _GRACE / 10]


def _is_covered(connected: Intervals, waived: list[Interval], begin: float, end: float) -> bool:
    """Return True if one or the other contains each time."""
    time = begin
    for start, stop in sorted(connected.all + waived):
        if start <= time < stop:
            time = stop
    return time >= end


def _messages_of_disconnected_sites(run: Run, timeline: Timeline) -> Iterator[Violation]:
    for process, deliveries in run.deliveries.items():
        arrivals = run.received.get(process, {})
        for each in deliveries:
            # What still comes of a site that has left is marked as recovered.
            if each.id.site != process[0] and each.id.site not in run.left:
                key = process[0], each.id.site, LinkState.DISCONNECTED
                # So is what waited for its order when the site was disconnected.
                arrival = arrivals.get(each.id, each.time)
                if timeline.states.get(key, Intervals()).covers(arrival, each.time):
                    text = f"{process[0]} got {each.id} of a disconnected site"
                    yield Violation(each.time, Property.AWARENESS, text)


def _early_disconnections(run: Run) -> Iterator[Violation]:
    suspected: dict[object, float] = {}
    for status in run.statuses:
        key = status.process, status.peer
        if status.state is LinkState.SUSPECTED:
            suspected[key] = status.time
        elif status.state is LinkState.DISCONNECTED and status.peer not in run.left:
            if status.time < suspected.get(key, FOREVER) + run.timers.suspect - 1e-6:
                text = f"{status.process[0]} disconnects {status.peer} too early"
                yield Violation(status.time, Property.AWARENESS, text)
