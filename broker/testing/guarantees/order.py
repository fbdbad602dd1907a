"""Guarantee 4: the events of each flow of an origin come in its order, and each publisher's in
theirs within one carrying pattern."""

from __future__ import annotations

from collections.abc import Iterator

from broker.event.flow import pattern_of
from broker.event.gap_reason import LEFT_OUT
from broker.event.place import Mark
from broker.testing.guarantees.allowances import Allowances
from broker.testing.guarantees.logged_again import is_logged_again
from broker.testing.guarantees.observations import Observations
from broker.testing.guarantees.records import Guarantee, ReportedGap, Violation
from broker.testing.guarantees.subscriber import Subscriber


def order_of_origins(
    seen: Observations, subscriber: Subscriber, allowed: Allowances
) -> Iterator[Violation]:
    """Yield places of one origin that do not rise within a process, gaps included.

    A gap for an event that was left out comes when that is found.
    """
    for process in subscriber.processes:
        newest: dict[str, Mark] = {}
        for item in process.items:
            gap = isinstance(item, ReportedGap)
            origin = item.origin if isinstance(item, ReportedGap) else item.place.origin
            mark = item.first if isinstance(item, ReportedGap) else item.place.mark
            before = newest.get(origin, (0, 0))
            key = None if isinstance(item, ReportedGap) else item.key
            if isinstance(item, ReportedGap) and item.reason == LEFT_OUT:
                continue
            if mark < before and not (gap and allowed.arrived_in_gaps):
                what = "a gap" if gap else "delivered"
                text = f"{what} at {mark} of {origin}, after {before}, in process {process.number}"
                yield Violation(Guarantee.ORDER, subscriber.name, text, key)
            last = item.last if isinstance(item, ReportedGap) else mark
            newest[origin] = max(before, before if gap and allowed.arrived_in_gaps else last)


def order_of_publishers(
    seen: Observations, subscriber: Subscriber, allowed: Allowances
) -> Iterator[Violation]:
    """Yield sequence numbers of one incarnation that do not rise within a process."""
    for process in subscriber.processes:
        newest: dict[tuple[str, int, str], int] = {}
        for event in process.deliveries:
            if not event.handled or is_logged_again(seen, event, allowed):
                continue
            # Transports of different patterns overtake each other.
            flow = event.place.origin
            flow = pattern_of(flow) if allowed.fifo_across_origins else flow
            publisher = event.key.client_id, event.key.incarnation, flow
            before = newest.get(publisher, 0)
            if event.key.number < before:
                text = f"delivered after number {before}, in process {process.number}"
                yield Violation(Guarantee.ORDER, subscriber.name, text, event.key)
            newest[publisher] = max(before, event.key.number)
