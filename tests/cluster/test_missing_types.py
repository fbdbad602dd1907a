"""Types of ordered events that a node lacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from broker.cluster import missing_types
from broker.cluster.missing_types import MissingTypes
from broker.cluster.types.awaited_announcements import WAIT_SECONDS, AwaitedAnnouncements
from broker.dtd.fetch_hint import FetchHint
from broker.dtd.reference import DtdReference
from broker.ingest.pending_dtds import MIN_BACKOFF, PendingDtds
from broker.streams.contract import CarriedEvent, FlowBatch
from tests.ingest.test_pending_dtds import Dtds

ONE, TWO = (DtdReference(name, "1.0") for name in ("one", "two"))
TIMEOUT = 100.0


class StoredDtds(Dtds):
    """A look-up loads what is on the disk."""

    stored: frozenset[DtdReference] = frozenset()

    def lookup(self, reference: DtdReference, hint: FetchHint) -> Deferred[object]:
        self.here |= self.stored & {reference}
        return super().lookup(reference, hint)


def document(reference: DtdReference) -> bytes:
    doctype = f'<!DOCTYPE Mspaces:Event PUBLIC "{reference.public_id}" "{reference.system_id}">'
    return f"{doctype}<Mspaces:Event/>".encode()


def batch(*documents: bytes) -> FlowBatch:
    events = [CarriedEvent((1, n), b"\x90", each) for n, each in enumerate(documents, 1)]
    return FlowBatch("a/x", "c/n", (1, 0), (1, len(events)), events)


class Setting:
    def __init__(self, *, accept_undescribed: bool = False) -> None:
        self.clock = Clock()
        self.dtds = StoredDtds(self.clock)
        self.variants: Mapping[DtdReference, DtdReference] = {}
        self.not_announced: set[DtdReference] = set()
        self.pending = PendingDtds(cast(Any, self.dtds), self.clock, TIMEOUT)
        self.types = MissingTypes(
            cast(Any, self.dtds),
            self.pending,
            lambda *_: self.variants,
            AwaitedAnnouncements(self.clock, lambda each, *_: each in self.not_announced),
            accept_undescribed=accept_undescribed,
        )
        self.calls = 0

    def count_ready(self, *references: DtdReference) -> int:
        return self.types.count_ready(batch(*map(document, references)), self.called)

    def called(self) -> None:
        self.calls += 1


def test_an_event_waits_until_its_type_has_come() -> None:
    it = Setting()
    it.dtds.here = {ONE}
    assert it.count_ready(ONE, ONE, TWO, ONE) == 2
    it.dtds.here = {ONE, TWO}
    it.clock.advance(MIN_BACKOFF)
    assert it.calls == 1 and it.count_ready(TWO, ONE) == 2


def test_an_event_whose_type_is_given_up_does_not_wait() -> None:
    it = Setting()
    assert it.count_ready(ONE) == 0
    it.clock.advance(TIMEOUT)
    assert it.calls == 1 and it.count_ready(ONE) == 1


def test_an_event_waits_for_the_text_of_its_origin() -> None:
    it = Setting()
    it.dtds.here = {ONE}
    it.variants = {ONE: DtdReference("one", "1.0", "a" * 64)}
    assert it.count_ready(ONE) == 0


def test_a_type_on_the_disk_is_not_missing() -> None:
    it = Setting()
    it.dtds.stored = frozenset({ONE})
    assert it.count_ready(ONE) == 1 and len(it.pending) == 0


def test_events_of_a_type_that_its_origin_has_not_announced_wait_a_second() -> None:
    it = Setting()
    it.dtds.here, it.not_announced = {ONE}, {ONE}
    assert it.count_ready(ONE) == 0
    it.clock.advance(WAIT_SECONDS)
    assert it.calls == 1 and it.count_ready(ONE) == 1


def test_undescribed_events_wait_for_one_look_up() -> None:
    it = Setting(accept_undescribed=True)
    # The look-up fails at once.
    assert it.count_ready(ONE) == 1 and len(it.pending) == 0


def test_documents_without_a_type_do_not_wait() -> None:
    it = Setting()
    documents = (b"<?xmlbroker-refused too-large?>", b"no XML", b"", b"<!DOCTYPE")
    assert it.types.count_ready(batch(*documents), it.called) == 4


def test_few_types_of_an_origin_are_looked_up_before_their_events_are_delivered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(missing_types, "MOST_TYPES", 2)
    it = Setting()
    types = [DtdReference(f"t{number}", "1.0") for number in range(4)]
    for _ in range(2):
        it.types.look_up(batch(*map(document, types)))
    assert [each in it.pending for each in types] == [True, True, False, False]
    assert {reference for _, reference in it.dtds.asked} == set(types[:2])
    it.dtds.here.add(types[0])
    it.clock.advance(MIN_BACKOFF)
    it.types.look_up(batch(*map(document, types)))
    assert [each in it.pending for each in types] == [False, True, True, False]
