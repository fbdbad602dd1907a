"""Events that a site delivers together, with their places in the order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from broker.event.order_entry import decode_entry_fields
from broker.streams.contract import CarriedEvent
from broker.transport.order import MessageId, Stamp


class DeliveredRun(NamedTuple):
    """Events of one flow whose numbers and stamps follow each other. A late one is alone."""

    id: MessageId
    """Of the first event."""
    stamp: Stamp | None
    """Of the first event, which is alone without one: a sequencer has not numbered it yet."""
    is_late: bool
    is_recovered: bool
    events: Sequence[CarriedEvent]

    def is_followed_by(self, other: DeliveredRun) -> bool:
        """Return whether both are one run."""
        if self.is_late or other.is_late or self.is_recovered != other.is_recovered:
            return False
        if self.stamp is None or other.stamp is None:
            return False
        (site, incarnation, number), (time, tie) = self.id, self.stamp
        count = len(self.events)
        after = site, incarnation, number + count, time + count, tie
        return after == (*other.id, *other.stamp)


def join_runs(runs: Sequence[DeliveredRun]) -> list[DeliveredRun]:
    """Return the same events in as few runs as possible."""
    joined: list[DeliveredRun] = []
    part: list[DeliveredRun] = []
    for each in runs:
        if part and not part[-1].is_followed_by(each):
            joined.append(_join(part))
            part = []
        part.append(each)
    return [*joined, _join(part)] if part else joined


def _join(runs: Sequence[DeliveredRun]) -> DeliveredRun:
    if len(runs) == 1:
        return runs[0]
    return runs[0]._replace(events=[event for each in runs for event in each.events])


def read_runs(stack: str, events: Iterable[CarriedEvent]) -> list[DeliveredRun]:
    """Return the runs of delivered events by their entries, without events that another stack has
    carried."""
    return join_runs(list(_read_each(stack, events)))


def _read_each(stack: str, events: Iterable[CarriedEvent]) -> Iterator[DeliveredRun]:
    for event in events:
        fields = decode_entry_fields(event.annotation)
        if fields is None or fields[0] != stack:
            continue
        _, site, incarnation, number, stamp, _, _, is_late, _, _, is_recovered, tie = fields
        id = MessageId(site, incarnation, number)
        place = None if stamp is None else Stamp(stamp, tie or site)
        yield DeliveredRun(id, place, is_late, is_recovered, [event])
