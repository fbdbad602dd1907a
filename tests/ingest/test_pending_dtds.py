from __future__ import annotations

from typing import Any, cast

import attrs
import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from broker.dtd.fetch_hint import FetchHint
from broker.dtd.reference import DtdReference
from broker.errors import UnknownType
from broker.ingest.pending_dtds import MAX_BACKOFF, PendingDtds

HINT = FetchHint()
ONE, TWO, THREE = (DtdReference(name, "1") for name in ("one", "two", "three"))


@attrs.define
class Dtds:
    clock: Clock
    here: set[DtdReference] = attrs.field(factory=set)
    asked: list[tuple[float, DtdReference]] = attrs.field(factory=list)

    def get(self, reference: DtdReference) -> object:
        return self if reference in self.here else None

    def clear_failure(self, reference: DtdReference) -> None:
        pass

    def lookup(self, reference: DtdReference, _: FetchHint) -> Deferred[object]:
        self.asked.append((self.clock.seconds(), reference))
        answer: Deferred[object] = Deferred()
        if reference in self.here:
            answer.callback(self)
        else:
            answer.errback(UnknownType("nobody has it"))
        return answer


class Setting:
    def __init__(self, patience: float = 1000.0) -> None:
        self.clock = Clock()
        self.dtds = Dtds(self.clock)
        self.awaited = PendingDtds(cast(Any, self.dtds), self.clock, patience)
        self.told: list[tuple[DtdReference, bool]] = []

    def wait(self, reference: DtdReference) -> None:
        self.awaited.call_when_settled(
            reference, HINT, lambda found: self.told.append((reference, found))
        )


def test_look_ups_back_off_up_to_the_maximum() -> None:
    it = Setting()
    it.wait(ONE)
    it.clock.pump([0.5] * 250)
    at = [seconds for seconds, _ in it.dtds.asked]
    assert at == [0, 1, 3, 7, 15, 31, 31 + MAX_BACKOFF, 31 + 2 * MAX_BACKOFF, 121]
    it.dtds.here.add(ONE)
    assert it.told == []
    it.clock.advance(MAX_BACKOFF)
    assert it.told == [(ONE, True)] and len(it.awaited) == 0


def test_after_the_timeout_callbacks_run_and_look_ups_continue() -> None:
    it = Setting(patience=2.0)
    it.wait(ONE)
    it.clock.advance(2.0)
    assert it.told == [(ONE, False)] and it.awaited.given_up == 1
    it.wait(ONE)
    assert it.told == [(ONE, False)] * 2
    it.dtds.here.add(ONE)
    it.clock.pump([1.0] * 4)
    it.wait(ONE)
    assert it.told[2:] == [(ONE, True)] and ONE not in it.awaited


def test_beyond_the_bound_the_oldest_type_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("broker.ingest.pending_dtds.MAX_TYPES", 2)
    it = Setting()
    for reference in (ONE, TWO, THREE):
        it.wait(reference)
    assert it.told == [(ONE, False)]
    assert [each in it.awaited for each in (ONE, TWO, THREE)] == [False, True, True]


def test_a_stopped_node_looks_up_nothing() -> None:
    it = Setting(patience=2.0)
    it.wait(ONE)
    it.awaited.stop()
    it.wait(TWO)
    assert it.told == [(TWO, False)]
    it.clock.pump([1.0] * 10)
    assert it.dtds.asked == [(0.0, ONE)] and it.awaited.given_up == 0
