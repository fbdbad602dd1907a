"""All violations of the guarantees in one run."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from broker.testing.guarantees.allowances import NONE, Allowances
from broker.testing.guarantees.arrival import lost_events, shared_places, unlogged_events
from broker.testing.guarantees.correctness import (
    altered_events,
    clearance_violations,
    false_gaps,
    stale_events,
)
from broker.testing.guarantees.observations import Observations
from broker.testing.guarantees.order import order_of_origins, order_of_publishers
from broker.testing.guarantees.records import End, Guarantee, Violation
from broker.testing.guarantees.repetition import repeated_events
from broker.testing.guarantees.subscriber import Subscriber

#: For one subscription.
Rule = Callable[[Observations, Subscriber, Allowances], Iterator[Violation]]


def dead_subscriptions(
    seen: Observations, subscriber: Subscriber, allowed: Allowances
) -> Iterator[Violation]:
    """Yield subscriptions that ended with an error, or never began (guarantee 1)."""
    last = subscriber.processes[-1] if subscriber.processes else None
    for process in subscriber.processes:
        if process.error and (process is last or not allowed.errors_end_processes):
            text = f"process {process.number} ended with {process.error}"
            yield Violation(Guarantee.DURABILITY, subscriber.name, text)
    if last is not None and last.end is End.RUNNING and last.flowing_at is None:
        text = f"process {last.number} never began to flow"
        yield Violation(Guarantee.DURABILITY, subscriber.name, text)


RULES: tuple[Rule, ...] = (
    dead_subscriptions,
    lost_events,
    repeated_events,
    order_of_origins,
    order_of_publishers,
    altered_events,
    stale_events,
    false_gaps,
    clearance_violations,
)


#: More time may still fulfil these, while events are in transit.
PENDING = frozenset({Guarantee.DURABILITY, Guarantee.AT_LEAST_ONCE, Guarantee.TYPES})


def is_complete(seen: Observations, allowed: Allowances = NONE) -> bool:
    return not any(violation.guarantee in PENDING for violation in check(seen, allowed))


def check(seen: Observations, allowed: Allowances = NONE) -> list[Violation]:
    """Return every violation, subscription by subscription."""
    found = [*unlogged_events(seen), *shared_places(seen)]
    for subscriber in seen.subscribers:
        for rule in RULES:
            found += rule(seen, subscriber, allowed)
    return found
