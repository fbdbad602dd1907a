"""Reliability and order of each sender (RCM R14, R15; L6)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from broker.testing.order.run import Process, Run
from broker.testing.order.timeline import FOREVER, Timeline
from broker.testing.order.violation import Property, Violation
from broker.transport.order import MessageId
from broker.transport.view import LinkState


def reliability(run: Run, timeline: Timeline) -> Iterator[Violation]:
    """Yield messages that a site did not get exactly once, without report.

    A message may be lost if one end restarts, or sees the other as disconnected.
    """
    counts = {
        process: Counter(each.id for each in deliveries)
        for process, deliveries in run.deliveries.items()
    }
    missing = _missing_numbers(run)
    for owner, count in counts.items():
        for id, times in count.items():
            if times > 1:
                yield _violation(run.end, f"{_name(owner)} got {_text(id)} {times} times")
            if id not in run.sent:
                yield _violation(run.end, f"{_name(owner)} got {_text(id)}, sent by no site")
            if id in missing[owner]:
                yield _violation(run.end, f"{_name(owner)} got {_text(id)}, reported as missing")
    for id, sent in run.sent.items():
        if timeline.lives[id[:2]][1] != FOREVER:
            continue
        for site in sent.destinations:
            process = timeline.process_at(site, sent.time)
            if process is None or timeline.lives[process][1] != FOREVER:
                continue
            if process in counts and counts[process][id]:
                continue
            was_apart = any(
                (apart := timeline.states.get((one, other, LinkState.DISCONNECTED))) is not None
                and apart.touches(sent.time, run.end)
                for one, other in ((site, id.site), (id.site, site))
            )
            if not was_apart:
                yield _violation(sent.time, f"{_name(process)} never got {_text(id)}")
            elif id not in missing[process]:
                yield _violation(sent.time, f"{_name(process)} lost {_text(id)} without report")


def fifo(run: Run, timeline: Timeline) -> Iterator[Violation]:
    """Yield messages of one process that came out of their order."""
    for process, deliveries in run.deliveries.items():
        last: dict[tuple[str, int], int] = {}
        for each in deliveries:
            sender = each.id[:2]
            before = last.get(sender, 0)
            if each.id.number < before:
                text = f"{_name(process)} got {_text(each.id)} after number {before}"
                yield Violation(each.time, Property.FIFO, text)
            last[sender] = max(before, each.id.number)


def _missing_numbers(run: Run) -> dict[Process, set[MessageId]]:
    found: dict[Process, set[MessageId]] = defaultdict(set)
    for each in run.missing:
        numbers = range(each.first, each.last + 1)
        found[each.process].update(MessageId(*each.sender, number) for number in numbers)
    return found


def _violation(time: float, text: str) -> Violation:
    return Violation(time, Property.RELIABILITY, text)


def _name(process: Process) -> str:
    return f"{process[0]}/{process[1]}"


def _text(id: MessageId) -> str:
    return f"{id.site}/{id.incarnation} #{id.number}"
