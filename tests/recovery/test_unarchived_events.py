"""Unarchived events come from logs once each, in order among the archived ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs
from twisted.internet.defer import Deferred

from broker.event.place import Mark
from broker.log.logged_event import LoggedEvent
from broker.recovery.page_merge import EventPages
from broker.recovery.remote_logs import LogSurvey
from broker.recovery.unarchived_events import UnarchivedEvents
from broker.replay.engine.contract import MissingRange
from tests.recovery.test_log_merge import logged
from tests.recovery.test_subscription_recovery import (
    EVENTS,
    GONE,
    IN_ORDER,
    OWN,
    WHOLE,
    Log,
    recovered,
)


def missing(*holes: MissingRange, log: Log | None = None, others: Any = None) -> UnarchivedEvents:
    recovery = recovered(None, log or Log([GONE]), WHOLE, elsewhere=others)
    found = UnarchivedEvents(recovery._missed, recovery._context)
    gathered = Deferred.fromCoroutine(found.read_from_logs(holes, (), 0.0))
    assert gathered.called
    return found


def places(events: Iterable[LoggedEvent]) -> list[tuple[str, int]]:
    return [(event.origin, event.offset) for event in events]


def test_events_behind_all_archived_ones_come_last() -> None:
    found = missing((GONE, (1, 1), (1, 3)), (OWN, (1, 2), (1, 3)))
    archived = [EVENTS[GONE][0], *EVENTS[OWN][:2]]
    assert places(found.merge_batch(archived)) == [(GONE, 1), (OWN, 1), (OWN, 2)]
    assert not found.is_empty
    assert places(found.take_rest()) == [(GONE, 2), (GONE, 3), (OWN, 3)]
    assert found.is_empty and found.take_rest() == []


def test_an_event_archived_at_another_place_comes_once() -> None:
    """Its publisher also sent it to another node."""
    found = missing((GONE, (1, 0), (1, 2)))
    elsewhere = logged("another", 7, 5, "p", 1)
    got = found.merge_batch([elsewhere, EVENTS[GONE][2], *EVENTS[OWN]])
    assert places(got) == [("another", 7), *IN_ORDER[1:]]
    assert found.take_rest() == []
    found = missing((GONE, (1, 0), (1, 2)))
    assert places(found.merge_batch([EVENTS[GONE][2], elsewhere])) == [
        (GONE, 1),
        (GONE, 2),
        (GONE, 3),
    ]


def test_a_range_without_a_log_is_missing_except_for_archived_events() -> None:
    found = missing((GONE, (0, 0), (1, 2)), log=Log([]))
    assert found.is_empty and found.missing_ranges == [(GONE, (0, 0), (1, 2))]
    found.record_event(EVENTS[GONE][0])
    assert found.missing_ranges == [(GONE, (1, 1), (1, 2))]


def test_an_empty_epoch_is_no_missing_range() -> None:
    found = missing((GONE, (1, 1), (1, 3)), log=Log([]))
    found.record_event(attrs.evolve(EVENTS[GONE][0], epoch=1, offset=2))
    found.record_event(attrs.evolve(EVENTS[GONE][0], epoch=1, offset=3))
    assert found.missing_ranges == []
    assert missing((GONE, (1, 3), (2, 3)), log=Log([])).missing_ranges == []


@attrs.define
class Others:
    asked: list[Sequence[str] | None] = attrs.field(factory=list)

    async def survey_origins(self, origins: Sequence[str] | None) -> LogSurvey:
        self.asked.append(origins)
        return LogSurvey()

    def read_pages(
        self, origin: str, after: Mark, upto: Mark, answers: LogSurvey
    ) -> list[EventPages]:
        return [self._page(after, upto)]

    async def _page(self, after: Mark, upto: Mark) -> EventPages:
        yield [event for event in EVENTS[GONE] if after < event.mark <= upto]


def test_other_nodes_are_surveyed_once() -> None:
    others = Others()
    found = missing((GONE, (0, 0), (1, 1)), (GONE, (1, 2), (1, 3)), log=Log([]), others=others)
    assert places(found.merge_batch(EVENTS[GONE][1:2])) == [(GONE, 1), (GONE, 2)]
    assert places(found.take_rest()) == [(GONE, 3)]
    assert others.asked == [[GONE]]
