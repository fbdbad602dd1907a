"""Guarantees 1, 2 and 7: every acknowledged event arrives, or a justified gap contains it."""

from __future__ import annotations

from collections.abc import Iterator

from broker.event.place import Mark, Place
from broker.testing.guarantees.allowances import Allowances
from broker.testing.guarantees.observations import Observations
from broker.testing.guarantees.records import (
    End,
    EventKey,
    Guarantee,
    Kind,
    Published,
    ToldGap,
    Violation,
)
from broker.testing.guarantees.subscriber import Subscriber
from broker.testing.guarantees.unseen_places import UnseenPlaces

_FIRST: Mark = (0, 0)
_NEVER: Mark = (1 << 32, 0)


def nowhere(seen: Observations) -> Iterator[Violation]:
    """Acknowledged events that no log holds, where nobody took anything out of the logs."""
    if seen.logs_read:
        for key in seen.receipts:
            if not seen.places.get(key):
                yield Violation(Guarantee.DURABILITY, "all logs", "acknowledged, and nowhere", key)


def shared_places(seen: Observations) -> Iterator[Violation]:
    """Places of two events: a node with the first one does not ask for the second."""
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
    """Events that the subscription should have got."""
    handled = subscriber.handled
    given_out = {each.key for each in subscriber.deliveries}
    gaps = list(subscriber.gaps)
    unseen = UnseenPlaces(seen, gaps)
    for key in seen.receipts:
        event = seen.events[key]
        if key in handled or not subscriber.matches(event) or not subscriber.may_read(event):
            continue
        places = seen.places.get(key, set())
        if not _must_come(subscriber, event, places, allowed):
            continue
        if places and all(allowed.unheard_of(key, place) for place in places):
            continue
        if not places and unseen.take(key, allowed):
            continue
        excuse = _excuse(key, places, gaps, allowed)
        if excuse is None:
            guarantee = _broken(event, key in given_out, allowed)
            yield Violation(guarantee, subscriber.name, "lost in silence", key)
        elif excuse:
            yield Violation(Guarantee.DURABILITY, subscriber.name, excuse, key)


def _must_come(
    subscriber: Subscriber, event: Published, places: set[Place], allowed: Allowances
) -> bool:
    first = subscriber.first_flow
    if first is None:
        return False
    if not places or first.began_after is None:
        return event.at > (first.flowing_at or 0.0) and not _ended_early(subscriber)
    if _ended_early(subscriber) and not any(_passed(subscriber, place) for place in places):
        return False
    return _behind_cut(subscriber, places, allowed)


def _behind_cut(subscriber: Subscriber, places: set[Place], allowed: Allowances) -> bool:
    return all(place.mark > _begins(subscriber, place.origin, allowed) for place in places)


def _ended_early(subscriber: Subscriber) -> bool:
    """True for a transient subscription that is over: only holes in its deliveries are losses."""
    return subscriber.kind is Kind.TRANSIENT and subscriber.processes[-1].end is not End.RUNNING


def _passed(subscriber: Subscriber, place: Place) -> bool:
    return any(
        each.place.origin == place.origin and each.place.mark > place.mark
        for each in subscriber.deliveries
    )


def _begins(subscriber: Subscriber, origin: str, allowed: Allowances) -> Mark:
    first = subscriber.first_flow
    began_after = {} if first is None or first.began_after is None else first.began_after
    if origin in began_after:
        return began_after[origin]
    if not allowed.unknown_origins:
        return _FIRST
    marks = [each.place.mark for each in subscriber.deliveries if each.place.origin == origin]
    return min(marks, default=_NEVER)


def _excuse(
    key: EventKey, places: set[Place], gaps: list[ToldGap], allowed: Allowances
) -> str | None:
    """None if no gap contains the event, "" if a justified one does, else the complaint."""
    complaint = None
    for gap in gaps:
        for place in places:
            if gap.holds(place):
                if allowed.may_be_gone(key, place, gap):
                    return ""
                complaint = f"reported as gone ({gap.reason}), and no fault justifies that"
    return complaint


def _broken(event: Published, given_out: bool, allowed: Allowances) -> Guarantee:
    if given_out:
        return Guarantee.AT_LEAST_ONCE
    return Guarantee.TYPES if event.type in allowed.new_types else Guarantee.DURABILITY
