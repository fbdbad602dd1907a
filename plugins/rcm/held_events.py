"""Messages that wait for their order: runs of events, and others."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TypeAlias

import attrs

from broker.event.flow import pattern_of
from broker.event.place import Mark
from broker.streams.contract import CarriedEvent, FlowBatch
from broker.transport.message import Message
from broker.transport.order import MessageId
from plugins.rcm.delivered_run import DeliveredRun, join_runs
from plugins.rcm.effects import DeliverBatch, GroupEffect
from plugins.rcm.payload import Channel, Payload


@attrs.define
class HeldEvents:
    """The events of a message, or of a run: all those in the range (after, upto] of their flow."""

    flow: str
    origin_node: str
    after: Mark
    upto: Mark
    events: list[CarriedEvent]
    is_recovered: bool = False
    has_entry: bool = False
    """The events have the entries of messages in time, with the stamps of their sender."""
    delivered: DeliveredRun | None = None
    """Their places, from their delivery on."""

    def __len__(self) -> int:
        return len(self.events)

    @property
    def mark(self) -> Mark:
        """Place of the first event."""
        return self.events[0].mark

    def to_batch(self) -> FlowBatch:
        return FlowBatch(self.flow, self.origin_node, self.after, self.upto, self.events)

    def to_payload(self) -> Payload:
        """Return the payload of the message: records have proofs, and no entries."""
        events = [event.with_annotation(b"") for event in self.events]
        return Payload(pattern_of(self.flow), self.origin_node, self.after, self.upto, events)

    def cut(self, count: int) -> tuple[HeldEvents, HeldEvents]:
        """Return the first events, and the others, each with its part of the range."""
        end = self.events[count - 1].mark
        return (
            attrs.evolve(self, upto=end, events=self.events[:count]),
            attrs.evolve(self, after=end, events=self.events[count:]),
        )

    def count_equal(self, events: Sequence[CarriedEvent]) -> int:
        """Return how many of the first events have the same places as others."""
        if self.events == events:
            # Mostly they are the same objects.
            return len(events)
        for index, (event, other) in enumerate(zip(self.events, events, strict=False)):
            if event.mark != other.mark:
                return index
        return min(len(self.events), len(events))


@attrs.define
class HeldMessage:
    """A message that is no event. An empty one was for other sites."""

    channel: Channel
    data: bytes
    is_recovered: bool = False
    copies: Sequence[Message] | None = None
    """Of an own message, each for some of the other sites; None: the data is for all."""

    def __len__(self) -> int:
        return 1

    def find_copy(self, site: str) -> int:
        """Return the index of the copy for a site, or -1."""
        for index, each in enumerate(self.copies or ()):
            if site in each.destinations:
                return index
        return -1


Held: TypeAlias = HeldEvents | HeldMessage


class HeldTable:
    """Messages and runs that wait for their delivery, each by the id of its first message."""

    def __init__(self) -> None:
        self._held: dict[MessageId, Held] = {}
        self._numbers: dict[tuple[str, int], list[int]] = {}
        """First numbers of each site and incarnation, in order."""

    def __len__(self) -> int:
        """Return the number of messages, without the runs around them."""
        return sum(map(len, self._held.values()))

    def __getitem__(self, first: MessageId) -> Held:
        return self._held[first]

    def get(self, first: MessageId) -> Held | None:
        return self._held.get(first)

    def of_site(self, site: str) -> Iterator[Held]:
        return (held for id, held in self._held.items() if id.site == site)

    def add(self, first: MessageId, held: Held) -> None:
        if first not in self._held:
            insort(self._numbers.setdefault(first[:2], []), first.number)
        self._held[first] = held

    def find_run(self, id: MessageId) -> MessageId | None:
        """Return the id under which a message is held, alone or in a run."""
        numbers = self._numbers.get(id[:2], ())
        index = bisect_right(numbers, id.number) - 1
        if index < 0:
            return None
        first = id._replace(number=numbers[index])
        return first if id.number < first.number + len(self._held[first]) else None

    def cut(self, first: MessageId, count: int) -> None:
        """Hold the first messages of a run, and the others, each under an id of its own."""
        held = self._held[first]
        assert isinstance(held, HeldEvents)
        self._held[first], rest = held.cut(count)
        self.add(first.after(count), rest)

    def take(self, id: MessageId, count: int = 1) -> list[tuple[MessageId, Held]]:
        """Remove and return messages that follow each other, in as few runs as they are held."""
        taken: list[tuple[MessageId, Held]] = []
        end = id.number + count
        while id.number < end:
            held = self._held.get(id)
            if held is None:
                id = id.after(1)
                continue
            if len(held) > end - id.number:
                self.cut(id, end - id.number)
                held = self._held[id]
            del self._held[id]
            numbers = self._numbers[id[:2]]
            del numbers[bisect_left(numbers, id.number)]
            if not numbers:
                del self._numbers[id[:2]]
            taken.append((id, held))
            id = id.after(len(held))
        return taken


def join_batches(held: Sequence[HeldEvents], site: str) -> Iterator[FlowBatch]:
    """Join events of a site that follow each other in one flow, and keep their order."""
    for group in _group(held):
        yield attrs.evolve(_join(group), sender=site)


def join_deliveries(held: Sequence[HeldEvents]) -> Iterator[DeliverBatch]:
    """Return the effects that deliver events with their places, joined in the same way."""
    for group in _group(held):
        runs = [each.delivered for each in group if each.delivered is not None]
        yield DeliverBatch(_join(group), join_runs(runs))


def _group(held: Sequence[HeldEvents]) -> Iterator[Sequence[HeldEvents]]:
    for _, group in groupby(held, lambda each: (each.flow, each.origin_node)):
        run: list[HeldEvents] = []
        for each in group:
            if run and each.after != run[-1].upto:
                yield run
                run = []
            run.append(each)
        yield run


def join_effects(effects: Sequence[GroupEffect]) -> list[GroupEffect]:
    """Join deliveries that follow each other in one flow."""
    runs: list[list[GroupEffect]] = []
    for each in effects:
        if runs and _follows(runs[-1][-1], each):
            runs[-1].append(each)
        else:
            runs.append([each])
    return [_join_run(run) for run in runs]


def _follows(one: GroupEffect, next: GroupEffect) -> bool:
    if not isinstance(one, DeliverBatch) or not isinstance(next, DeliverBatch):
        return False
    return one.batch.flow == next.batch.flow and one.batch.upto == next.batch.after


def _join_run(run: Sequence[GroupEffect]) -> GroupEffect:
    deliveries = [each for each in run if isinstance(each, DeliverBatch)]
    if len(deliveries) < 2:
        return run[0]
    first, last = deliveries[0].batch, deliveries[-1].batch
    events = [event for each in deliveries for event in each.batch.events]
    runs = [one for each in deliveries for one in each.runs]
    return DeliverBatch(attrs.evolve(first, upto=last.upto, events=events), join_runs(runs))


def _join(group: Sequence[HeldEvents]) -> FlowBatch:
    first, last = group[0], group[-1]
    if len(group) == 1:
        return first.to_batch()
    events = [event for each in group for event in each.events]
    return FlowBatch(first.flow, first.origin_node, first.after, last.upto, events)
