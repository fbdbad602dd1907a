"""A recovery waits for damaged parts of the archive while they may be written again."""

from __future__ import annotations

import attrs
import pytest
from twisted.internet.task import Clock

from broker.delivery.recovery_contract import LostRange
from broker.recovery.planner import MAX_LOG_PLACES
from broker.replay.request import ReplayRequest
from tests.recovery.test_subscription_recovery import (
    GONE,
    IN_ORDER,
    WHOLE,
    Archived,
    Log,
    OneReplay,
    all_of,
    offsets,
    recovered,
)


class Breaking(Archived):
    """The first replay finds a damaged file."""

    def start_replay(self, request: ReplayRequest) -> OneReplay:
        if not self.asked:
            self.damaged, self.heals = frozenset({2}), True
        return super().start_replay(request)


@pytest.mark.parametrize("found", [False, True])
def test_a_repairable_range_is_awaited(found: bool) -> None:
    clock = Clock()
    archive = Breaking() if found else Archived(damaged=frozenset({2}), heals=True)
    recovery = recovered(archive, Log([]), WHOLE, clock=clock)
    first = recovery.next_events()
    clock.advance(0.6)
    assert not first.called
    assert len(archive.asked) == found
    archive.damaged, archive.heals = frozenset(), False
    clock.advance(0.5)
    assert [
        *offsets(first),
        *offsets(recovery.next_events()),
        *offsets(recovery.next_events()),
    ] == [1, 2, 3] * 2
    assert offsets(recovery.next_events()) == []
    assert recovery.remaining_losses() == []


@pytest.mark.parametrize("found", [False, True])
def test_an_unrepaired_range_is_lost_in_the_end(found: bool) -> None:
    clock = Clock()
    archive = Breaking() if found else Archived(damaged=frozenset({2}), heals=True)
    recovery = recovered(archive, Log([]), WHOLE, clock=clock)
    first = recovery.next_events()
    clock.pump([0.1] * 9)
    assert not first.called
    clock.pump([0.1] * 10)
    assert offsets(first) == [1]
    assert recovery.preceding_losses() == []
    assert offsets(recovery.next_events()) == [3]
    assert [(each.origin, each.after, each.upto) for each in recovery.preceding_losses()] == [
        (GONE, (1, 1), (1, 2))
    ]
    assert [*offsets(recovery.next_events()), *offsets(recovery.next_events())] == [1, 2, 3]
    assert recovery.preceding_losses() == []
    assert offsets(recovery.next_events()) == []
    assert recovery.remaining_losses() == []
    assert recovery.lost_places == 1
    assert len(archive.asked) == 1


def test_a_range_repaired_before_the_second_replay_is_not_lost() -> None:
    clock, archive = Clock(), Archived(damaged=frozenset({3}), fails=1)
    recovery = recovered(archive, Log([]), WHOLE, clock=clock)
    first = recovery.next_events()
    clock.pump([0.5] * 4)
    assert offsets(first) == [1, 2]
    archive.damaged = frozenset()
    assert sorted(all_of(recovery)) == IN_ORDER[2:]
    assert (recovery.remaining_losses(), recovery.lost_places) == ([], 0)


def test_old_damage_is_not_awaited() -> None:
    archive = Archived(damaged=frozenset({2}))
    recovery = recovered(archive, Log([]), WHOLE)
    assert all_of(recovery) == [each for each in IN_ORDER if each != (GONE, 2)]
    assert recovery.lost_places == 1
    assert len(archive.asked) == 1


MANY = MAX_LOG_PLACES
"""With so many, the archive is asked first."""


@pytest.mark.parametrize("of", ["a replica", "this node's log"])
def test_unarchived_events_come_from_logs_in_order(of: str) -> None:
    archive = Archived(damaged=frozenset({2}))
    replica = of == "a replica"
    log = Log([GONE] if replica else [])
    recovery = recovered(archive, log, WHOLE, busy=MANY, scraps=[] if replica else [2])
    assert all_of(recovery) == IN_ORDER
    assert recovery.remaining_losses() == []
    assert len(archive.asked) == 1


def test_an_unreachable_node_is_awaited_while_the_archive_is_repairable() -> None:
    clock, archive = Clock(), Archived(damaged=frozenset({2}), heals=True)
    log = Log([GONE], is_there=False)
    recovery = recovered(archive, log, WHOLE, clock=clock, busy=MANY)
    first = recovery.next_events()
    clock.pump([0.5] * 60)
    assert not first.called
    log.is_there = True
    clock.advance(0.5)
    assert offsets(first) == [1, 2, 3, 1, 2, 3]
    assert offsets(recovery.next_events()) == []
    assert recovery.remaining_losses() == []


def test_losses_before_a_broken_replay_are_reported() -> None:
    archive = Archived(damaged=frozenset({2}), fails=1)
    recovery = recovered(archive, Log([]), WHOLE)
    lost: list[LostRange] = []
    assert all_of(recovery, lost) == [each for each in IN_ORDER if each != (GONE, 2)]
    assert len(archive.asked) == 2
    assert [(each.after, each.upto) for each in lost] == [((1, 1), (1, 2))]


class Wide(Archived):
    """The places of a lost file lie among those of other files."""

    def start_replay(self, request: ReplayRequest) -> OneReplay:
        return attrs.evolve(super().start_replay(request), lost=[(GONE, (0, 0), (1, 3))])


def test_events_from_another_file_are_not_in_the_gap() -> None:
    recovery = recovered(Wide(damaged=frozenset({2})), Log([]), WHOLE)
    lost: list[LostRange] = []
    assert all_of(recovery, lost) == [each for each in IN_ORDER if each != (GONE, 2)]
    assert [(each.after, each.upto) for each in lost] == [((1, 1), (1, 2))]
