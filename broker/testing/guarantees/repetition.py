"""Guarantee 3: an event comes once.

Exceptions: events that a killed process had not confirmed; events of earlier processes after a
warning about an old position; events logged again after a log was set back, since the earlier
process's position lies on the lost branch.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.testing.guarantees.allowances import Allowances
from broker.testing.guarantees.logged_again import is_logged_again
from broker.testing.guarantees.observations import Observations
from broker.testing.guarantees.records import Delivered, End, EventKey, Guarantee, Violation
from broker.testing.guarantees.subscriber import Process, Subscriber


def repeated_events(
    seen: Observations, subscriber: Subscriber, allowed: Allowances
) -> Iterator[Violation]:
    """Yield events that came again within a process, or after a process that closed itself."""
    newest: dict[EventKey, tuple[Process, Delivered]] = {}
    for process in subscriber.processes:
        for event in process.deliveries:
            before = newest.get(event.key)
            newest[event.key] = process, event
            if before is None or not before[1].handled:
                # A failed attempt is repeated.
                continue
            other, first = before
            places = f"at {first.place} and {event.place}"
            if other is process:
                text = f"twice in process {process.number}, {places}"
            elif other.end is End.CLOSED and not (
                _has_warning(subscriber, other, process) or is_logged_again(seen, event, allowed)
            ):
                text = f"in process {process.number} again, after {other.number} closed, {places}"
            else:
                continue
            yield Violation(Guarantee.ONCE, subscriber.name, text, event.key)


def _has_warning(subscriber: Subscriber, earlier: Process, later: Process) -> bool:
    return any(each.may_repeat for each in subscriber.processes[earlier.number : later.number])
