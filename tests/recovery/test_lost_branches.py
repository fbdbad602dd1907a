"""Events of lost branches come in the order of their places among what is recovered."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

from twisted.internet.defer import Deferred

from broker.event.place import Mark
from broker.recovery.lost_branches import MOST, LostBranches
from broker.store.records import LoggedEvent
from tests.recovery.test_log_merging import logged


class Log:
    """A log that has events of epoch 1 at these offsets."""

    def __init__(self, *offsets: int) -> None:
        self.events = [logged("own", offset, 0, "p", offset) for offset in offsets]
        self.read: list[tuple[Mark, Mark]] = []

    async def lost_branch(self, _: str, after: Mark, upto: Mark) -> AsyncIterator[LoggedEvent]:
        self.read.append((after, upto))
        for event in self.events:
            if after < event.mark <= upto:
                yield event


def before(branches: LostBranches, mark: Mark | None) -> list[int]:
    got: list[list[LoggedEvent]] = []
    Deferred.fromCoroutine(branches.before(mark)).addCallback(got.append)
    (events,) = got
    return [event.offset for event in events]


def test_events_are_read_as_far_as_their_places_lie_before_a_mark() -> None:
    log = Log(3, 5, 6, 9, 12)
    branches = LostBranches(cast(Any, log), "own", [((1, 4), (1, 7)), ((1, 8), (2, 0))])
    assert before(branches, (1, 4)) == [] and log.read == []
    assert before(branches, (1, 6)) == [5]
    assert before(branches, (1, 8)) == [6]
    assert before(branches, (1, 8)) == []
    assert before(branches, (2, 1)) == [9, 12]
    assert before(branches, None) == []
    assert log.read == [((1, 4), (1, 7)), ((1, 8), (2, 0))]


def test_many_come_in_portions() -> None:
    branches = LostBranches(cast(Any, Log(*range(1, MOST + 3))), "own", [((1, 0), (2, 0))])
    assert before(branches, (2, 1)) == [*range(1, MOST + 1)]
    assert before(branches, None) == [MOST + 1, MOST + 2]
    assert before(branches, None) == []
