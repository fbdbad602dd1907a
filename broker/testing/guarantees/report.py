"""Text of a run's violations: the seed, and a short trace of each affected event."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from broker.testing.guarantees.observations import Observations
from broker.testing.guarantees.records import EventKey, Violation

#: Traced violations, and lines of one trace.
MOST_TRACED = 5
LONGEST_TRACE = 20


def report(seed: str, seen: Observations, violations: Sequence[Violation]) -> str:
    """Return the counts by guarantee, and traces of the first violations."""
    return "\n".join(_lines(seed, seen, violations))


def _lines(seed: str, seen: Observations, violations: Sequence[Violation]) -> Iterator[str]:
    yield f"seed {seed}: {len(violations)} violations"
    counts: dict[tuple[str, str], int] = {}
    for each in violations:
        group = str(each.guarantee), each.subscriber
        counts[group] = counts.get(group, 0) + 1
    for (guarantee, subscriber), count in sorted(counts.items()):
        yield f"  {count:5} {guarantee}: {subscriber}"
    traced: set[tuple[str, str]] = set()
    for each in violations:
        group = str(each.guarantee), each.subscriber
        if group in traced or len(traced) == MOST_TRACED:
            continue
        traced.add(group)
        yield f"{each}"
        if each.key is not None:
            yield from (f"    {line}" for line in trace(seen, each.key)[:LONGEST_TRACE])


def trace(seen: Observations, key: EventKey) -> list[str]:
    found: list[tuple[float, str]] = []
    event = seen.events.get(key)
    if event is not None:
        about = f"{event.stream}, {event.type}, level {event.level}, value {event.value}"
        found.append((event.at, f"published: {about}, bytes {event.digest or 'unknown'}"))
    receipt = seen.receipts.get(key)
    places = seen.places.get(key, set())
    if receipt is not None:
        said = ", ".join(map(str, sorted(places, key=str))) or "no place observed"
        found.append((receipt.at, f"acknowledged ({receipt.durability}): {said}"))
    for subscriber in seen.subscribers:
        for process in subscriber.processes:
            who = f"{subscriber.name}, process {process.number} ({process.end.value})"
            for each in process.deliveries:
                if each.key == key:
                    what = "delivered" if each.handled else "delivered, not handled"
                    text = f"{who}: {what} at {each.place}, {each.liveness}, bytes {each.digest}"
                    found.append((each.at, text))
            for gap in process.gaps:
                if any(gap.contains(place) for place in places):
                    found.append((gap.at, f"{who}: {gap}"))
    return [f"{at:10.3f} {text}" for at, text in sorted(found)]
