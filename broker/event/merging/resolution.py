"""Resolved order of a complete set of events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from broker.event.envelope import EventLinkage
from broker.event.event_id import EventId
from broker.event.merging.bundle_order import order_by_bundles
from broker.event.merging.bursts import END_OF_STREAMS, Bursts
from broker.event.merging.held_event import HeldEvent, LinkedEvent, sort_key
from broker.event.merging.vocabulary import Rule, Scheme, limited_bundles, rule_of


class Row(NamedTuple):
    """Input of `resolve`."""

    stream: str
    event_id: EventId
    linkage: EventLinkage


def resolve(rows: Sequence[Row], rule: Rule | None = None) -> list[int]:
    """Return the indexes of `rows` in resolved order, by `rule` or by the events' own linkage.

    `rows` are in order of arrival. Events of one merge exchange places among themselves: bundle
    numbers first, then time stamps. An unlinked event never overtakes an earlier one of its
    publisher. O(n log n).
    """
    merges: dict[tuple[Scheme, Rule | None], list[HeldEvent[int]]] = defaultdict(list)
    linked: dict[int, HeldEvent[int]] = {}
    for index, row in enumerate(rows):
        held = _hold(index, row, rule)
        if held is not None and held.rule is not None:
            linked[index] = held
            by_time = held.rule.scheme is Scheme.TIME
            # Bundles belong to streams: a rule only adds the order to them.
            merges[held.rule.scheme, held.rule if by_time else None].append(held)
    place: dict[int, int] = {}
    for (scheme, _), events in merges.items():
        slots = (held.linked.item for held in events)
        ordered = _order_by_time(events) if scheme is Scheme.TIME else order_by_bundles(events)
        for slot, held in zip(slots, ordered, strict=True):
            place[held.linked.item] = slot
    return _insert_unlinked(rows, place)


def _hold(index: int, row: Row, rule: Rule | None) -> HeldEvent[int] | None:
    chosen = rule if rule is not None else rule_of(row.linkage)[0]
    bundles = limited_bundles(row.linkage)
    if chosen is None or (chosen.scheme is Scheme.BUNDLE and not bundles):
        return None
    key = sort_key(chosen, row.event_id, chosen.lanes(row.stream, bundles))
    linked = LinkedEvent(index, row.stream, row.event_id, row.linkage, 0)
    return HeldEvent(index, linked, bundles, chosen, key, 0.0)


def _order_by_time(events: Sequence[HeldEvent[int]]) -> list[HeldEvent[int]]:
    rule = events[0].rule
    assert rule is not None
    bursts: Bursts[int] = Bursts(rule.constraint)
    for held in sorted(events, key=lambda held: (held.time, held.serial)):
        bursts.add(held)
    return bursts.release_ready(END_OF_STREAMS)


def _insert_unlinked(rows: Sequence[Row], place: dict[int, int]) -> list[int]:
    """Insert unlinked events, none before an earlier one of its publisher."""
    behind: dict[str, int] = {}
    keys: list[tuple[int, int, int]] = []
    for index, row in enumerate(rows):
        client_id = row.event_id.client_id
        if index in place:
            keys.append((place[index], 0, index))
            behind[client_id] = max(behind.get(client_id, 0), place[index])
        else:
            keys.append((max(index, behind.get(client_id, 0)), 1, index))
    return [index for _, _, index in sorted(keys)]
