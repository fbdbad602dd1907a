"""Events of lost branches come in place order among the recovered ones."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

import attrs
import pytest
from twisted.internet.defer import Deferred

from broker.delivery.recovery_contract import LostRange
from broker.event.place import Mark, Position
from broker.log.coverage import Coverage
from broker.log.logged_event import LoggedEvent
from broker.log.replica_table import ReplicaSpan
from broker.recovery.log_page_reader import LogPageRequest, Page
from broker.recovery.lost_branch_reader import MAX_EVENTS, LostBranchReader
from broker.recovery.subscription_recovery import SubscriptionRecovery
from broker.subscriptions.durable_subscriptions import DurableSubscription
from tests.recovery.test_log_merge import logged
from tests.recovery.test_log_page_reader import WHOLE as WHOLE_LOG
from tests.recovery.test_log_page_reader import Log as OneLog
from tests.recovery.test_log_page_reader import Matcher, ask, pages_of
from tests.recovery.test_subscription_recovery import (
    EVENTS,
    GONE,
    OWN,
    WHOLE,
    Archived,
    all_of,
    recovered,
)
from tests.recovery.test_subscription_recovery import Log as Sources


class Log:
    def __init__(self, *offsets: int) -> None:
        self.events = [logged("own", offset, 0, "p", offset) for offset in offsets]
        self.read: list[tuple[Mark, Mark]] = []

    async def read_lost_branch(self, _: str, after: Mark, upto: Mark) -> AsyncIterator[LoggedEvent]:
        self.read.append((after, upto))
        for event in self.events:
            if after < event.mark <= upto:
                yield event


def before(branches: LostBranchReader, mark: Mark | None) -> list[int]:
    got: list[list[LoggedEvent]] = []
    Deferred.fromCoroutine(branches.read_before(mark)).addCallback(got.append)
    (events,) = got
    return [event.offset for event in events]


def test_events_are_read_up_to_a_mark() -> None:
    log = Log(3, 5, 6, 9, 12)
    branches = LostBranchReader(cast(Any, log), "own", [((1, 4), (1, 7)), ((1, 8), (2, 0))])
    assert before(branches, (1, 4)) == [] and log.read == []
    assert before(branches, (1, 6)) == [5]
    assert before(branches, (1, 8)) == [6]
    assert before(branches, (1, 8)) == []
    assert before(branches, (2, 1)) == [9, 12]
    assert before(branches, None) == []
    assert log.read == [((1, 4), (1, 7)), ((1, 8), (2, 0))]


def test_many_events_come_in_portions() -> None:
    branches = LostBranchReader(
        cast(Any, Log(*range(1, MAX_EVENTS + 3))), "own", [((1, 0), (2, 0))]
    )
    assert before(branches, (2, 1)) == [*range(1, MAX_EVENTS + 1)]
    assert before(branches, None) == [MAX_EVENTS + 1, MAX_EVENTS + 2]
    assert before(branches, None) == []


# ------------------------------------------------------------------ the place where a branch left


@pytest.mark.parametrize(
    ("after", "found", "reached"),
    [((0, 0), [1, 2, 3], (1, 3)), ((1, 2), [3], (1, 3)), ((1, 3), [], None), ((1, 4), [], None)],
)
def test_own_events_end_where_a_lost_branch_began(
    after: Mark, found: list[int], reached: Mark | None
) -> None:
    log = OneLog(forks_at=(1, 3))
    request = attrs.evolve(WHOLE_LOG, ranges={"own": (after, (1, 6))})
    (page,) = ask(pages_of(log, Matcher()), request)
    assert [event.offset for event in page.events] == found
    assert page.reached == ({} if reached is None else {"own": reached})


@pytest.mark.parametrize(
    ("after", "upto", "found"),
    [
        ((1, 1), (1, 2), True),
        ((1, 1), (1, 9), True),
        ((1, 6), (1, 9), False),
        ((0, 0), (0, 9), False),
    ],
)
def test_has_events_includes_the_last_place(after: Mark, upto: Mark, found: bool) -> None:
    expected: list[bool] = []
    asked = pages_of(OneLog(), Matcher()).has_events("own", after, upto)
    Deferred.fromCoroutine(asked).addCallback(expected.append)
    assert expected == [found]


@pytest.mark.parametrize("kept", [False, True], ids=["log", "copies"])
@pytest.mark.parametrize(
    ("upto", "found", "reached"),
    [
        # Behind the last event of a lost branch, missing events are unknown.
        ((1, 5), [(1, 1), (1, 2), (1, 3)], (1, 3)),
        ((1, 3), [(1, 1), (1, 2), (1, 3)], (1, 3)),
        # These lie before the branch, and on the other one.
        ((1, 2), [(1, 1), (1, 2)], (1, 2)),
        ((2, 4), [(1, 1), (1, 2), (1, 3), (2, 3), (2, 4)], (2, 4)),
    ],
)
def test_a_page_of_a_lost_branch_ends_at_its_last_event(
    upto: Mark,
    found: list[Mark],
    reached: Mark,
    kept: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`far` was restored to its second event, and logged new ones up to the fifth."""
    marks = [(1, 1), (1, 2), (1, 3), (2, 3), (2, 4), (2, 5)]
    events = [
        attrs.evolve(logged("far", offset, 0, "p", offset), epoch=epoch, serial=serial)
        for serial, (epoch, offset) in enumerate(marks, 1)
    ]
    monkeypatch.setattr("tests.recovery.test_log_page_reader.EVENTS", events)
    log = OneLog(histories={"far": ((2, 7, (1, 2)),)})
    stored = None
    if kept:
        log.replica_spans = {"far": ReplicaSpan((0, 0), (2, 5))}
    else:
        log.coverage = Coverage({"own": (1, 0), "far": (2, 5)})
        stored = DurableSubscription(
            ">", "true()", {}, Position(), 0, active_from=Position({"far": (1, 0)})
        )
    request = attrs.evolve(WHOLE_LOG, ranges={"far": ((1, 0), upto)})
    (page,) = ask(pages_of(log, Matcher(), stored), request)
    assert [event.mark for event in page.events] == found
    assert page.reached == {"far": reached}
    if upto > reached:
        request = attrs.evolve(request, ranges={"far": (reached, upto)}, serial=page.next_serial)
        (page,) = ask(pages_of(log, Matcher(), stored), request)
        assert (page.events, page.reached, page.next_serial) == ([], {}, 0)


class WithBranch(Sources):
    """A log with replicas of events 3 and 4 of a lost branch."""

    async def has_events(self, origin: str, after: Mark, upto: Mark) -> bool:
        return origin == GONE

    async def read_page(self, request: LogPageRequest, *, wait: bool = False) -> Page:
        if not request.allow_partial:
            return await super().read_page(request, wait=wait)
        after, upto = request.ranges[GONE]
        copies = [logged(GONE, offset, 0, "q", offset) for offset in (3, 4)]
        assert upto is not None
        return Page([each for each in copies if after < each.mark <= upto], {}, 0)


def branched(**changes: Any) -> SubscriptionRecovery:
    ranges = {**WHOLE, GONE: ((0, 0), EVENTS[GONE][-1].mark)}
    recovery = recovered(None, Sources([GONE]), ranges)
    context = attrs.evolve(recovery._context, page_reader=cast(Any, WithBranch([OWN])))
    return SubscriptionRecovery(attrs.evolve(recovery._missed, **changes), context, 0)


def test_events_of_a_lost_branch_come_in_place_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    marks = [(1, 1), (1, 2), (2, 5), (2, 6)]
    events = [
        attrs.evolve(logged(GONE, offset, offset, "p", offset), epoch=epoch)
        for epoch, offset in marks
    ]
    monkeypatch.setitem(EVENTS, GONE, events)
    came = all_of(branched(lost_branches={GONE: [((1, 2), (1, 4))]}))
    assert [offset for origin, offset in came if origin == GONE] == [1, 2, 3, 4, 5, 6]


def test_events_before_the_client_position_do_not_come_again() -> None:
    """The range begins earlier, since the client's place is on a lost branch."""
    came = all_of(branched(position={GONE: (1, 2), OWN: (1, 1)}))
    assert came == [(GONE, 3), (OWN, 2), (OWN, 3)]


def losses_of(
    recovery: SubscriptionRecovery, position: Mapping[str, Mark]
) -> list[tuple[Mark, Mark]]:
    missed = attrs.evolve(recovery._missed, position=position)
    lost: list[LostRange] = []
    all_of(SubscriptionRecovery(missed, recovery._context, 0), lost)
    return [(each.after, each.upto) for each in lost]


@pytest.mark.parametrize(("had", "expected"), [(1, [((1, 1), (1, 2))]), (2, []), (3, [])])
def test_losses_before_the_client_position_are_not_reported(
    had: int, expected: list[tuple[Mark, Mark]]
) -> None:
    archive = Archived(damaged=frozenset([2]))
    recovery = recovered(archive, Sources([]), {GONE: ((0, 0), (1, 3))})
    assert losses_of(recovery, {GONE: (1, had)}) == expected


@pytest.mark.parametrize(
    ("had", "expected"),
    [((1, 1), ((1, 1), (2, 5))), ((1, 4), ((2, 1), (2, 5))), ((1, 9), ((2, 1), (2, 5)))],
)
def test_a_loss_begins_where_the_origin_continued(had: Mark, expected: tuple[Mark, Mark]) -> None:
    """It was restored to its first event, and logged new ones up to the fifth."""
    recovery = recovered(None, Sources([]), {GONE: ((1, 1), (2, 5))})
    assert losses_of(recovery, {GONE: had}) == [expected]
