"""Types that events of other nodes name: what a failed look-up means for these events."""

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
from broker.ingest.awaited_types import AwaitedTypes
from tests.cluster.traffic.frames import frame

ONE = DtdReference("one", "1")


@attrs.define
class Dtds:
    """Has nothing; a look-up ends when it is told to."""

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
        self.awaited = AwaitedTypes(cast(Any, self.dtds), self.clock, 600.0)
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
def test_events_go_on_without_a_dtd_unless_it_was_not_looked_for_for_lack_of_room(
    error: Exception, counts_as: type[Exception], passed_over: bool
) -> None:
    it = Setting()
    it.look_for(ONE)
    assert it.went_on == 0
    it.dtds.asked[0].errback(error)
    assert it.went_on == 1
    assert type(it.line.missing_types[ONE]) is counts_as
    assert (ONE in it.line.skippable_types) is (ONE in it.awaited) is passed_over


def test_events_wait_for_a_moment_and_their_dtd_is_looked_for_still() -> None:
    it = Setting()
    it.look_for(ONE)
    it.clock.advance(LOOKUP_WAIT)
    assert it.went_on == 1 and ONE in it.awaited
    assert type(it.line.missing_types[ONE]) is UnknownType
    # What comes behind them does not wait again.
    it.look_for(ONE)
    assert it.went_on == 2
    it.dtds.asked[0].errback(UnknownType("nobody has it"))
    assert it.went_on == 2


def test_where_undescribed_events_count_they_wait_until_it_is_known_that_nobody_has_it() -> None:
    it = Setting(accept_undescribed=True)
    it.look_for(ONE)
    it.clock.advance(LOOKUP_WAIT)
    assert it.went_on == 0
    it.dtds.asked[0].errback(UnknownType("nobody has it"))
    assert it.went_on == 1 and ONE not in it.awaited
