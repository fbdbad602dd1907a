"""Deliveries that are taken back before they are executed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from broker.streams.contract import CarriedEvent, FlowBatch
from broker.transport.order import MessageId, Stamp
from plugins.rcm.delivered_run import DeliveredRun
from plugins.rcm.effects import DeliverBatch, GroupEffect
from plugins.rcm.observer import GroupObserver
from plugins.rcm.transport import RcmTransport
from tests.plugins.rcm.clients.simulated_group import SimulatedGroup
from tests.plugins.rcm.test_group import RECORD

FLOW = "a/chat.>"


class Recorder(GroupObserver):
    mark = b"r"

    def __init__(self) -> None:
        self.delivered: list[object] = []

    def deliver(self, flow: str, runs: Sequence[DeliveredRun], now: float) -> list[GroupEffect]:
        self.delivered += [event.mark for run in runs for event in run.events]
        return []

    def take_back(self, taken: object, now: float) -> list[GroupEffect]:
        self.delivered.append("taken back")
        return []


def run_of(batch: FlowBatch) -> DeliveredRun:
    (event,) = batch.events
    id, stamp = MessageId("a", 1, event.mark[1]), Stamp(event.mark[1], "a")
    return DeliveredRun(id, stamp, is_late=False, is_recovered=False, events=[event])


class FailingContext:
    """The delivery of the first batch fails."""

    def __init__(self, site: RcmTransport) -> None:
        self._site = site
        self._context = site._context
        self.delivered: list[FlowBatch] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def deliver(self, batch: FlowBatch) -> None:
        self.delivered.append(batch)
        if len(self.delivered) == 1:
            self._site.take_back(batch.flow, batch.after)


def test_observers_get_no_delivery_behind_one_that_has_failed(tmp_path: Path) -> None:
    group = SimulatedGroup(tmp_path, "a")
    group.advance(1.0)
    site: Any = group.processes["a"].site
    site._context = context = FailingContext(site)
    recorder = Recorder()
    site._observers.add(recorder)
    batches = [
        FlowBatch(flow, "a", (1, number - 1), (1, number), [CarriedEvent((1, number), RECORD, b"")])
        for flow, number in ((FLOW, 1), (FLOW, 2), ("b/chat.>", 3), (FLOW, 2))
    ]
    effects = [DeliverBatch(batch, [run_of(batch)]) for batch in batches]
    site._runner.apply_effects(effects[:3])
    site._runner.apply_effects(effects[3:])
    assert context.delivered == batches
    assert recorder.delivered == [(1, 1), "taken back", (1, 3), (1, 2)]
