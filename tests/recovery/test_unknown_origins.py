"""A recovery of the whole past includes origins that only other nodes know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import attrs
import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from broker.cluster.address import Address
from broker.event.place import Mark
from broker.log.logged_event import LoggedEvent
from broker.recovery.log_source import LogSource
from broker.recovery.page_merge import EventPages
from broker.recovery.planner import RemainingRanges
from broker.recovery.remote_logs import LogSurvey
from broker.replay.request import ReplayRequest
from tests.recovery.test_subscription_recovery import (
    EVENTS,
    GONE,
    OWN,
    PATIENCE,
    Archived,
    Log,
    OneReplay,
    all_of,
    recovered,
)

NODE = Address.parse("c/b")
#: Only other nodes have reached the third event of the dead origin.
ALL = [(GONE, 1), (GONE, 2), (OWN, 1), (OWN, 2), (OWN, 3)]


@attrs.define
class Others:
    """One node has the last event of that origin, or only its place."""

    answers: LogSurvey
    has_event: bool = True

    async def survey_origins(self, origins: Sequence[str] | None) -> LogSurvey:
        self.answers.marks = {GONE: {NODE: (1, 3)}}
        return self.answers

    def read_pages(
        self, origin: str, after: Mark, upto: Mark, answers: LogSurvey
    ) -> list[EventPages]:
        assert (origin, after, upto) == (GONE, (1, 2), (1, 3))
        return [self._page()] if self.has_event else []

    async def _page(self) -> EventPages:
        yield EVENTS[GONE][2:]


class Archive(Archived):
    """It lacks the last event of the dead origin."""

    def start_replay(self, request: ReplayRequest) -> OneReplay:
        ranges = {**request.ranges, GONE: ((0, 0), (1, 2))}
        found = super().start_replay(attrs.evolve(request, ranges=ranges))
        return Reached(found.events, found.fails)


class Reached(OneReplay):
    def end_marks(self) -> Mapping[str, Mark]:
        return {GONE: (1, 2), OWN: (1, 3)}


@pytest.mark.parametrize("has_event", [True, False])
@pytest.mark.parametrize(
    ("answers", "waits"),
    [
        (LogSurvey(), False),
        (LogSurvey(is_complete=False), True),
        (LogSurvey(senders={GONE: {"ship/a"}}), True),
    ],
    ids=["all-answer", "one-is-silent", "the-origin's-node-is-away"],
)
def test_a_node_that_may_have_the_log_is_awaited(
    answers: LogSurvey, waits: bool, has_event: bool
) -> None:
    clock = Clock()
    others = Others(attrs.evolve(answers), has_event)
    ranges = {OWN: ((0, 0), (1, 3))}
    recovery = recovered(Archive(), Log([]), ranges, others=True, elsewhere=others, clock=clock)
    found, waited = [], False
    while not (page := recovery.next_events()).called or page.result:
        if not page.called:
            clock.pump([1.0] * int(PATIENCE))
            assert page.called
            waited = True
        events = cast(Sequence[LoggedEvent], page.result)
        found += [(event.origin, event.offset) for event in events]
    assert sorted(found) == sorted([*ALL, *([(GONE, 3)] * has_event)])
    assert waited == waits
    expected = [(each.origin, each.after, each.upto) for each in recovery.remaining_losses()]
    assert expected == ([] if has_event else [(GONE, (1, 2), (1, 3))])


def test_a_reachable_log_is_not_an_unknown_origin() -> None:
    recovery = recovered(
        Archive(),
        Log([]),
        {OWN: ((0, 0), (1, 3))},
        others=True,
        elsewhere=Others(LogSurvey(available_logs={GONE})),
    )
    assert sorted(all_of(recovery)) == sorted(ALL)
    assert recovery.remaining_losses() == []


def test_own_lost_events_are_not_read_from_others() -> None:
    """This node logs them again itself, at new places."""
    recovery = recovered(None, Log([]), {OWN: ((0, 0), (1, 3))}, elsewhere=Others(LogSurvey()))
    missed = recovery._missed
    logs = LogSource(missed, recovery._context, RemainingRanges(missed.ranges))
    found: list[list[LoggedEvent]] = []

    async def scraps() -> list[LoggedEvent]:
        return [event async for events in logs.read_partial_logs() for event in events]

    Deferred.fromCoroutine(scraps()).addCallback(found.append)
    assert found == [[]]
