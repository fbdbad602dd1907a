"""Messages that wait for their order: events, and others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import attrs

from broker.event.flow import pattern_of
from broker.event.place import Mark
from broker.streams.contract import CarriedEvent, FlowBatch
from broker.transport.message import Message
from plugins.rcm.effects import DeliverBatch, GroupEffect
from plugins.rcm.payload import Channel, Payload


@attrs.define
class HeldEvent:
    """An event, alone in the range (after, upto] of its flow."""

    flow: str
    origin_node: str
    after: Mark
    upto: Mark
    event: CarriedEvent
    is_recovered: bool = False
    has_entry: bool = False
    """The event has the entry of a message in time, with the stamp of its sender."""

    def to_batch(self) -> FlowBatch:
        return FlowBatch(self.flow, self.origin_node, self.after, self.upto, [self.event])

    def to_payload(self, record: bytes) -> Payload:
        """Return the payload of its message, with a record that has no entry."""
        event = self.event._replace(record=record)
        return Payload(pattern_of(self.flow), self.origin_node, self.after, self.upto, event)


@attrs.define
class HeldMessage:
    """A message that is no event. An empty one was for other sites."""

    channel: Channel
    data: bytes
    is_recovered: bool = False
    copies: Sequence[Message] | None = None
    """Of an own message, each for some of the other sites; None: the data is for all."""

    def find_copy(self, site: str) -> int:
        """Return the index of the copy for a site, or -1."""
        for index, each in enumerate(self.copies or ()):
            if site in each.destinations:
                return index
        return -1


def hold_events(batch: FlowBatch) -> Iterator[HeldEvent]:
    """Yield the events of a batch, each with its part of the range."""
    after = batch.after
    for index, event in enumerate(batch.events):
        upto = batch.upto if index == len(batch.events) - 1 else event.mark
        yield HeldEvent(batch.flow, batch.origin_node, after, upto, event)
        after = upto


def join_batches(held: Sequence[HeldEvent]) -> Iterator[FlowBatch]:
    """Join events that follow each other in one flow, and keep their order."""
    for (flow, node), group in groupby(held, lambda each: (each.flow, each.origin_node)):
        run: list[HeldEvent] = []
        for each in group:
            if run and each.after != run[-1].upto:
                yield _join(flow, node, run)
                run = []
            run.append(each)
        yield _join(flow, node, run)


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
    batches = [each.batch for each in run if isinstance(each, DeliverBatch)]
    if len(batches) < 2:
        return run[0]
    events = [event for each in batches for event in each.events]
    return DeliverBatch(attrs.evolve(batches[0], upto=batches[-1].upto, events=events))


def _join(flow: str, node: str, run: Sequence[HeldEvent]) -> FlowBatch:
    return FlowBatch(flow, node, run[0].after, run[-1].upto, [each.event for each in run])
