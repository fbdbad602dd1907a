"""Delivered events of ordered flows that wait for their types."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.cluster import type_waits
from broker.cluster.type_waits import TypeWaits
from broker.event.place import Mark
from broker.streams.contract import CarriedEvent, FlowBatch


def batch(flow: str, *offsets: int) -> FlowBatch:
    events = [CarriedEvent((1, offset), b"\x90", b"%d" % offset) for offset in offsets]
    return FlowBatch(flow, "c/n", (1, offsets[0] - 1), (1, offsets[-1]), events)


class Setting:
    def __init__(self) -> None:
        self.missing: set[int] = set()
        """Offsets of events whose types are missing."""
        self.call_backs: list[Callable[[], object]] = []
        self.delivered: list[tuple[str, int]] = []
        self.dropped: list[tuple[str, Mark]] = []
        self.waits = TypeWaits(self.deliver, lambda flow, after: self.dropped.append((flow, after)))
        self.waits.count_ready = self.count_ready
        self.waits.stack_of = lambda flow: "other" if flow.endswith("/z") else "stack"

    def count_ready(self, batch: FlowBatch, call_back: Callable[[], object]) -> int:
        for index, event in enumerate(batch.events):
            if event.mark[1] in self.missing:
                self.call_backs.append(call_back)
                return index
        return len(batch.events)

    def deliver(self, batch: FlowBatch) -> None:
        count = self.waits.hold(batch)
        self.delivered += [(batch.flow, event.mark[1]) for event in batch.events[:count]]

    def find(self, *offsets: int) -> None:
        self.missing -= set(offsets)
        call_backs, self.call_backs = self.call_backs, []
        for each in call_backs:
            each()


def test_events_of_other_origins_and_of_other_stacks_do_not_wait() -> None:
    it = Setting()
    it.missing = {2}
    for each in (batch("a/x", 1, 2, 3), batch("b/x", 4), batch("a/y", 5), batch("a/z", 6)):
        it.deliver(each)
    assert it.delivered == [("a/x", 1), ("b/x", 4), ("a/z", 6)]
    assert [it.waits.is_waiting(flow) for flow in ("a/x", "a/y", "b/x", "a/z")] == [1, 1, 0, 0]


def test_events_are_handed_over_in_their_order_up_to_the_next_missing_type() -> None:
    it = Setting()
    it.missing = {1, 5}
    for each in (batch("a/x", 1, 2), batch("a/y", 3), batch("a/x", 4, 5), batch("a/y", 6)):
        it.deliver(each)
    assert it.delivered == []
    it.find(1)
    assert it.delivered == [("a/x", 1), ("a/x", 2), ("a/y", 3), ("a/x", 4)]
    assert it.waits.waiting_bytes == len("56")
    it.find(5)
    assert it.delivered[4:] == [("a/x", 5), ("a/y", 6)]
    assert it.waits.waiting_bytes == 0 and not it.waits.is_waiting("a/x")


@pytest.mark.parametrize("bound", ["MOST_BYTES", "MOST_BYTES_OF_ALL"])
def test_too_many_events_of_an_origin_come_again(
    bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type_waits, bound, 3)
    it = Setting()
    it.missing = {2}
    it.deliver(batch("a/x", 1, 2, 3, 4))
    it.waits.drop_overflow()
    assert it.dropped == [] and not it.waits.is_full("a/x")
    it.deliver(batch("a/y", 5))
    assert it.waits.is_full("a/x") and not it.waits.is_full("b/x")
    it.waits.drop_overflow()
    assert it.dropped == [("a/x", (1, 1)), ("a/y", (1, 4))] and it.waits.waiting_bytes == 0
    # They come again, before and after the type.
    it.deliver(batch("a/x", 2, 3, 4))
    assert it.delivered == [("a/x", 1)]
    it.find(2)
    assert it.delivered == [("a/x", 1), ("a/x", 2), ("a/x", 3), ("a/x", 4)]


def test_a_lone_event_may_be_larger_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type_waits, "MOST_BYTES", 1)
    it = Setting()
    it.missing = {10}
    it.deliver(batch("a/x", 10))
    it.waits.drop_overflow()
    assert it.dropped == [] and it.waits.is_waiting("a/x")


def test_events_of_a_failed_flow_are_forgotten_and_others_wait_on() -> None:
    it = Setting()
    it.missing = {1}
    for each in (batch("a/x", 1), batch("a/y", 2), batch("a/x", 3)):
        it.deliver(each)
    it.waits.forget_flow("a/x")
    assert it.waits.waiting_bytes == 1 and it.delivered == []
    it.find(1)
    assert it.delivered == [("a/y", 2)] and it.dropped == []
