"""Events of messages that wait for their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import attrs

from broker.event.place import Mark
from broker.streams.contract import CarriedEvent, FlowBatch


@attrs.frozen
class HeldEvent:
    """An event, alone in the range (after, upto] of its flow."""

    flow: str
    origin_node: str
    after: Mark
    upto: Mark
    event: CarriedEvent
    is_recovered: bool = False


def hold_events(batch: FlowBatch, *, is_recovered: bool = False) -> Iterator[HeldEvent]:
    """Yield the events of a batch, each with its part of the range."""
    after = batch.after
    for index, event in enumerate(batch.events):
        upto = batch.upto if index == len(batch.events) - 1 else event.mark
        yield HeldEvent(batch.flow, batch.origin_node, after, upto, event, is_recovered)
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


def _join(flow: str, node: str, run: Sequence[HeldEvent]) -> FlowBatch:
    return FlowBatch(flow, node, run[0].after, run[-1].upto, [each.event for each in run])
