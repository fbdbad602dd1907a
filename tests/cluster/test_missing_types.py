"""Missing types of other nodes' events, and failed look-ups."""

from __future__ import annotations

from typing import Any, cast

import attrs
import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from broker.cluster.ingest_job import OriginQueue
from broker.cluster.missing_types import LOOKUP_WAIT, MissingTypes
from broker.cluster.types.awaited_announcements import AwaitedAnnouncements
from broker.dtd.fetch_hint import FetchHint
from broker.dtd.reference import DtdReference
from broker.errors import ForbiddenPointer, Overloaded, UnknownType
from broker.ingest.pending_dtds import PendingDtds
from tests.cluster.traffic.frames import frame

ONE = DtdReference("one", "1")


@attrs.define
class Dtds:
    """An empty cache; the test ends its look-ups."""

    asked: list[Deferred[object]] = attrs.field(factory=list)

    def get(self, _: DtdReference) -> None:
        return None

    def clear_failure(self, _: DtdReference) -> None:
        pass

    def lookup(self, _: DtdReference, __: FetchHint) -> Deferred[object]:
        self.asked.append(Deferred())
        return self.asked[-1]


class Setting:
    def __init__(self, *, accept_undescribed: bool = False) -> None:
        self.dtds, self.clock, self.line = Dtds(), Clock(), OriginQueue()
        self.awaited = PendingDtds(cast(Any, self.dtds), self.clock, 600.0)
        self.missing = MissingTypes(
            *(cast(Any, self.dtds), self.awaited, self.clock),
            announcements=AwaitedAnnouncements(self.clock, lambda *_: False),
            accept_undescribed=accept_undescribed,
        )
        self.went_on = 0

    def look_for(self, *references: DtdReference) -> None:
        self.missing.look_up_types(self.line, frame([]), dict.fromkeys(references, ""), self.go_on)

    def go_on(self) -> None:
        self.went_on += 1


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
    it.look_for(ONE)
    assert it.went_on == 0
    it.dtds.asked[0].errback(error)
    assert it.went_on == 1
    assert type(it.line.missing_types[ONE]) is counts_as
    assert (ONE in it.line.skippable_types) is (ONE in it.awaited) is passed_over


def test_events_wait_briefly_while_the_look_up_continues() -> None:
    it = Setting()
    it.look_for(ONE)
    it.clock.advance(LOOKUP_WAIT)
    assert it.went_on == 1 and ONE in it.awaited
    assert type(it.line.missing_types[ONE]) is UnknownType
    # Later events do not wait again.
    it.look_for(ONE)
    assert it.went_on == 2
    it.dtds.asked[0].errback(UnknownType("nobody has it"))
    assert it.went_on == 2


def test_accepted_undescribed_events_wait_for_the_end_of_the_look_up() -> None:
    it = Setting(accept_undescribed=True)
    it.look_for(ONE)
    it.clock.advance(LOOKUP_WAIT)
    assert it.went_on == 0
    it.dtds.asked[0].errback(UnknownType("nobody has it"))
    assert it.went_on == 1 and ONE not in it.awaited
