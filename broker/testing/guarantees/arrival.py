"""Guarantees 1, 2 and 7: each acknowledged event arrives, or a justified gap contains it."""

from __future__ import annotations

from collections.abc import Iterator

from broker.event.flow import origin_of, pattern_of
from broker.event.place import Mark, Place
from broker.testing.guarantees.allowances import Allowances
from broker.testing.guarantees.observations import Observations
from broker.testing.guarantees.records import (
    End,
    EventKey,
    Guarantee,
    Kind,
    Published,
    ReportedGap,
    Violation,
)
from broker.testing.guarantees.subscriber import Subscriber
from broker.testing.guarantees.unrecorded_places import UnrecordedPlaces

_FIRST: Mark = (0, 0)
_NEVER: Mark = (1 << 32, 0)


def unlogged_events(seen: Observations) -> Iterator[Violation]:
    """Yield events that no log holds, although nothing was removed."""
    if seen.has_all_places:
        for key in seen.receipts:
            if not seen.places.get(key):
                yield Violation(Guarantee.DURABILITY, "all logs", "acknowledged, and nowhere", key)


def shared_places(seen: Observations) -> Iterator[Violation]:
    """Yield places of two events: a node with the first one never requests the second."""
    holders: dict[Place, EventKey] = {}
    for key, places in seen.places.items():
        for place in places:
            holder = holders.setdefault(place, key)
            if holder != key:
                text = f"{place} was given to {holder} before"
                yield Violation(Guarantee.DURABILITY, "all logs", text, key)


def lost_events(
    seen: Observations, subscriber: Subscriber, allowed: Allowances
) -> Iterator[Violation]:
    handled = subscriber.handled
    given_out = {each.key for each in subscriber.deliveries}
    gaps = list(subscriber.gaps)
    unseen = UnrecordedPlaces(seen, gaps)
    for key in seen.receipts:
        event = seen.events[key]
        if key in handled or not subscriber.matches(event) or not subscriber.may_read(event):
            continue
        places = seen.places.get(key, set())
        if not _is_expected(subscriber, event, places, allowed):
            continue
        if places and all(allowed.is_unrecorded(key, place) for place in places):
            continue
        if not places and unseen.use_place(key, allowed):
            continue
        excuse = _find_excuse(key, places, gaps, allowed)
        if excuse is None:
            guarantee = _broken_guarantee(event, key in given_out, allowed)
            yield Violation(guarantee, subscriber.name, "lost in silence", key)
        elif excuse:
            yield Violation(Guarantee.DURABILITY, subscriber.name, excuse, key)


def _is_expected(
    subscriber: Subscriber, event: Published, places: set[Place], allowed: Allowances
) -> bool:
    first = subscriber.first_flow
    if first is None:
        return False
    if not places or first.first_cut is None:
        return event.at > (first.flowing_at or 0.0) and not _has_ended_early(subscriber)
    if _has_ended_early(subscriber) and not any(_is_passed(subscriber, place) for place in places):
        return False
    return _is_after_cut(subscriber, places, allowed)


def _is_after_cut(subscriber: Subscriber, places: set[Place], allowed: Allowances) -> bool:
    # A receipt does not name the flow.
    flows = {(origin_of(each.origin), each.mark) for each in places if pattern_of(each.origin)}
    return all(
        place.mark > _first_expected(subscriber, place.origin, allowed)
        for place in places
        if (place.origin, place.mark) not in flows
    )


def _has_ended_early(subscriber: Subscriber) -> bool:
    """Only holes between the deliveries of an ended transient subscription are losses."""
    return subscriber.kind is Kind.TRANSIENT and subscriber.processes[-1].end is not End.RUNNING


def _is_passed(subscriber: Subscriber, place: Place) -> bool:
    return any(
        each.place.origin == place.origin and each.place.mark > place.mark
        for each in subscriber.deliveries
    )


def _first_expected(subscriber: Subscriber, origin: str, allowed: Allowances) -> Mark:
    first = subscriber.first_flow
    began_after = {} if first is None or first.first_cut is None else first.first_cut
    if origin in began_after:
        return began_after[origin]
    if not allowed.unknown_origins:
        return _FIRST
    marks = [each.place.mark for each in subscriber.deliveries if each.place.origin == origin]
    return min(marks, default=_NEVER)


def _find_excuse(
    key: EventKey, places: set[Place], gaps: list[ReportedGap], allowed: Allowances
) -> str | None:
    """Return None if no gap contains the event, "" for a justified gap, else the violation's
    text."""
    complaint = None
    for gap in gaps:
        for place in places:
            if gap.contains_logged(place):
                if allowed.justifies_gap(key, place, gap):
                    return ""
                complaint = f"reported as gone ({gap.reason}), and no fault justifies that"
    return complaint


def _broken_guarantee(event: Published, given_out: bool, allowed: Allowances) -> Guarantee:
    if given_out:
        return Guarantee.AT_LEAST_ONCE
    return Guarantee.TYPES if event.type in allowed.new_types else Guarantee.DURABILITY
