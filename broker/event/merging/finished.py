"""The resolved order of a whole set of events: what was recovered, or stands in an archive."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from broker.event.envelope import EventLinkage
from broker.event.identity import EventId
from broker.event.merging.bursts import OVER, Bursts
from broker.event.merging.chains import chain_order
from broker.event.merging.held import Held, Linked, key_of
from broker.event.merging.vocabulary import Rule, Scheme, bundles_of, rule_of


class Row(NamedTuple):
    """What `resolve` needs of an event; `linkage_of` reads the linkage from a document."""

    stream: str
    event_id: EventId
    linkage: EventLinkage


def resolve(rows: Sequence[Row], rule: Rule | None = None) -> list[int]:
    """The indexes of `rows` in resolved order; by `rule` if one is given, else as the events say.

    `rows` come in the order that holds where nothing is linked (each publisher's own order, by
    arrival otherwise). The events of one merge change places among themselves, so they stay where
    they are among all others; but one that links to nothing never overtakes an earlier one of its
    publisher. Nothing is missing from a finished set, so nothing is late and nothing waits; what
    numbers of bundles leave open goes by time stamp. Plain data in and out, no clock: n log n.
    """
    merges: dict[tuple[Scheme, Rule | None], list[Held[int]]] = defaultdict(list)
    linked: dict[int, Held[int]] = {}
    for index, row in enumerate(rows):
        held = _held(index, row, rule)
        if held is not None and held.rule is not None:
            linked[index] = held
            by_time = held.rule.scheme is Scheme.TIME
            # Bundles are bundles of streams: an event's rule only adds the order to them.
            merges[held.rule.scheme, held.rule if by_time else None].append(held)
    place: dict[int, int] = {}
    for (scheme, _), events in merges.items():
        slots = (held.linked.item for held in events)
        ordered = _by_time(events) if scheme is Scheme.TIME else chain_order(events)
        for slot, held in zip(slots, ordered, strict=True):
            place[held.linked.item] = slot
    return _settled(rows, place)


def _held(index: int, row: Row, rule: Rule | None) -> Held[int] | None:
    chosen = rule if rule is not None else rule_of(row.linkage)[0]
    bundles = bundles_of(row.linkage)
    if chosen is None or (chosen.scheme is Scheme.BUNDLE and not bundles):
        return None
    key = key_of(chosen, row.event_id, chosen.lanes(row.stream, bundles))
    linked = Linked(index, row.stream, row.event_id, row.linkage, 0)
    return Held(index, linked, bundles, chosen, key, 0.0)


def _by_time(events: Sequence[Held[int]]) -> list[Held[int]]:
    rule = events[0].rule
    assert rule is not None
    bursts: Bursts[int] = Bursts(rule.constraint)
    for held in sorted(events, key=lambda held: (held.time, held.serial)):
        bursts.hold(held)
    return bursts.release(OVER)


def _settled(rows: Sequence[Row], place: dict[int, int]) -> list[int]:
    """All indexes: linked ones at their places, the others not before those of their publisher."""
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
