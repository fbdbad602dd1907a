"""Guarantees 5, 6 and 8: bytes as published, true gaps, nothing above the clearance."""

from __future__ import annotations

from collections.abc import Iterator

from broker.errors import BrokerError
from broker.event.gap_reason import LEFT_OUT, LOST, RETENTION, UNREACHABLE
from broker.event.place import Place
from broker.testing.guarantees.allowances import Allowances
from broker.testing.guarantees.observations import Observations
from broker.testing.guarantees.records import (
    Delivered,
    End,
    EventKey,
    Guarantee,
    Published,
    ReportedGap,
    Violation,
)
from broker.testing.guarantees.subscriber import Process, Subscriber

#: Of the session protocol, and codes of errors for which a node could not pass an event on.
REASONS = frozenset(
    {"slow", "coalesced", RETENTION, LOST, UNREACHABLE, LEFT_OUT, *BrokerError._by_code}
)


def altered_events(
    seen: Observations, subscriber: Subscriber, allowed: Allowances
) -> Iterator[Violation]:
    """Yield events that differ from the published ones, were never published, or do not match."""
    for delivered in subscriber.deliveries:
        event = seen.events.get(delivered.key)
        if event is None:
            text = f"nobody published what came at {delivered.place}"
        elif difference := _difference(event, delivered):
            text = f"altered at {delivered.place}: {difference}"
        elif not subscriber.matches(event):
            text = f"delivered at {delivered.place} and does not match"
        else:
            continue
        yield Violation(Guarantee.BYTES, subscriber.name, text, delivered.key)


def _difference(event: Published, delivered: Delivered) -> str:
    for what in ("digest", "stream", "type", "level"):
        sent, got = getattr(event, what), getattr(delivered, what)
        if got and sent and sent != got:
            return f"{what} {sent} became {got}"
    return ""


def stale_events(
    seen: Observations, subscriber: Subscriber, allowed: Allowances
) -> Iterator[Violation]:
    """Yield events from before the flow that came as live ones."""
    for process in subscriber.processes:
        cut = process.first_cut or {}
        for event in process.deliveries:
            place = event.place
            if event.liveness == "live" and place.mark <= cut.get(place.origin, (0, 0)):
                text = f"live at {place}, before the cut of process {process.number}"
                yield Violation(Guarantee.BYTES, subscriber.name, text, event.key)


def false_gaps(
    seen: Observations, subscriber: Subscriber, allowed: Allowances
) -> Iterator[Violation]:
    """Yield gaps with impossible bounds or unjustified reasons, or around delivered events."""
    reasons = REASONS if allowed.reasons is None else allowed.reasons
    for process in subscriber.processes:
        for gap in process.gaps:
            text = ""
            if gap.last < gap.first or gap.count < 1:
                text = f"the bounds of {gap} are no range"
            elif gap.reason not in reasons:
                text = f"no fault of this run justifies {gap}"
            if text:
                yield Violation(Guarantee.GAPS, subscriber.name, text)
            if not allowed.arrived_in_gaps:
                yield from _arrived_within(subscriber, process, gap)


def _arrived_within(
    subscriber: Subscriber, process: Process, gap: ReportedGap
) -> Iterator[Violation]:
    for other in subscriber.processes[: process.number]:
        if other is not process and other.end is End.KILLED:
            # The next process gets unconfirmed events of a killed one again.
            continue
        for event in other.deliveries:
            if event.handled and gap.contains(event.place):
                text = f"arrived in process {other.number}, and {gap} contains it"
                yield Violation(Guarantee.GAPS, subscriber.name, text, event.key)


def clearance_violations(
    seen: Observations, subscriber: Subscriber, allowed: Allowances
) -> Iterator[Violation]:
    """Yield events above the clearance, and gaps that contain no other event."""
    for delivered in subscriber.deliveries:
        event = seen.events.get(delivered.key)
        if event is not None and not subscriber.may_read(event):
            text = f"level {event.level} came to clearance {subscriber.clearance}"
            yield Violation(Guarantee.CLEARANCE, subscriber.name, text, delivered.key)
    told = [gap for gap in subscriber.gaps if gap.reason not in allowed.headerless_reasons]
    for gap in told:
        within = [seen.events[key] for key, _ in _events_within(seen, gap)]
        if within and not any(subscriber.may_read(event) for event in within):
            text = f"{gap} contains nothing but events above clearance {subscriber.clearance}"
            yield Violation(Guarantee.CLEARANCE, subscriber.name, text, within[0].key)


def _events_within(seen: Observations, gap: ReportedGap) -> Iterator[tuple[EventKey, Place]]:
    for key, places in seen.places.items():
        for place in places:
            if key in seen.events and gap.contains(place):
                yield key, place
