from __future__ import annotations

from typing import Any, cast

import attrs
import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from broker.dtd.fetch_hint import FetchHint
from broker.dtd.reference import DtdReference
from broker.errors import ForbiddenPointer, Overloaded, UnknownType
from broker.ingest.event_source import EventSource, find_retry_error
from broker.ingest.pending_dtds import PendingDtds
from broker.ingest.type_lookups import LOOKUP_WAIT, TypeLookups
from broker.matching.contract import TypeMissing

ONE = DtdReference("one", "1")
TWO = DtdReference("two", "1")


@attrs.define
class Dtds:
    """The test ends its look-ups."""

    asked: list[Deferred[object]] = attrs.field(factory=list)

    def get(self, _: DtdReference) -> None:
        return None

    def clear_failure(self, _: DtdReference) -> None:
        pass

    def lookup(self, _: DtdReference, __: FetchHint) -> Deferred[object]:
        self.asked.append(Deferred())
        return self.asked[-1]


class Source(EventSource):
    def fetch_hint(self, system_id: str) -> FetchHint:
        return FetchHint(system_id)


class Setting:
    def __init__(self, *, has_background: bool = True) -> None:
        dtds = self.dtds = Dtds()
        self.clock = Clock()
        self.pending = PendingDtds(cast(Any, dtds), self.clock, 600.0)
        self.lookups = TypeLookups(cast(Any, dtds), self.pending if has_background else None)
        self.source = Source(self.count_resumed)
        self.resumed = 0

    def count_resumed(self) -> None:
        assert not self.source.is_paused
        self.resumed += 1

    def start(self, *references: DtdReference) -> bool:
        return self.lookups.start(self.source, [TypeMissing(each, "") for each in references])


@pytest.mark.parametrize(
    ("error", "counts_as", "passed_over"),
    [
        (Overloaded("many wait for it"), Overloaded, False),
        (ForbiddenPointer("http://1"), ForbiddenPointer, True),
        (ConnectionError("no route"), UnknownType, True),
    ],
    ids=["no room here", "refused", "any other"],
)
def test_events_continue_without_a_dtd_unless_the_look_up_was_overloaded(
    error: Exception, counts_as: type[Exception], passed_over: bool
) -> None:
    it = Setting()
    assert it.start(ONE) and it.source.is_paused and it.resumed == 0
    it.dtds.asked[0].errback(error)
    assert it.resumed == 1
    assert type(it.source.missing_types[ONE]) is counts_as
    assert (ONE in it.source.skippable_types) is (ONE in it.pending) is passed_over


def test_events_wait_briefly_while_the_look_up_continues() -> None:
    it = Setting()
    it.start(ONE)
    it.clock.advance(LOOKUP_WAIT)
    assert it.resumed == 1 and ONE in it.pending
    assert type(it.source.missing_types[ONE]) is UnknownType
    assert not it.start(ONE)
    it.source.missing_types.clear()
    assert it.start(ONE) and it.resumed == 2
    it.dtds.asked[0].errback(UnknownType("nobody has it"))
    assert it.resumed == 2


def test_events_wait_for_the_end_of_all_look_ups_that_do_not_continue() -> None:
    it = Setting(has_background=False)
    it.start(ONE, TWO)
    it.clock.advance(2 * LOOKUP_WAIT)
    it.dtds.asked[0].errback(UnknownType("nobody has it"))
    assert it.resumed == 0
    it.dtds.asked[1].callback(None)
    assert it.resumed == 1 and list(it.source.missing_types) == [ONE]
    assert ONE not in it.pending


def test_only_a_temporary_error_of_these_events_lets_them_come_again() -> None:
    full, unknown = Overloaded("many wait for it"), UnknownType("nobody has it")
    missing = {ONE: full, TWO: unknown}
    assert find_retry_error(missing, [TypeMissing(TWO, "")]) is None
    assert find_retry_error(missing, [TypeMissing(TWO, ""), TypeMissing(ONE, "")]) is full
