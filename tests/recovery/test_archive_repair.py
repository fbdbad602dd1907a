"""A recovery waits for what is damaged in the archive, while somebody may write it again."""

from __future__ import annotations

import attrs
import pytest
from twisted.internet.task import Clock

from broker.delivery.recovery import Lost
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
    """An archive in which a file is damaged, which the first replay finds."""

    def start_replay(self, request: ReplayRequest) -> OneReplay:
        if not self.asked:
            self.damaged, self.heals = frozenset({2}), True
        return super().start_replay(request)


@pytest.mark.parametrize("found", [False, True])
def test_what_is_damaged_is_waited_for_while_somebody_may_write_it_again(found: bool) -> None:
    clock = Clock()
    archive = Breaking() if found else Archived(damaged=frozenset({2}), heals=True)
    filling = recovered(archive, Log([]), WHOLE, clock=clock)
    first = filling.more()
    clock.advance(0.6)
    assert not first.called
    assert len(archive.asked) == found
    archive.damaged, archive.heals = frozenset(), False
    clock.advance(0.5)
    assert [*offsets(first), *offsets(filling.more()), *offsets(filling.more())] == [1, 2, 3] * 2
    assert offsets(filling.more()) == []
    assert filling.lost() == []


@pytest.mark.parametrize("found", [False, True])
def test_what_nobody_writes_again_is_lost_in_the_end(found: bool) -> None:
    clock = Clock()
    archive = Breaking() if found else Archived(damaged=frozenset({2}), heals=True)
    filling = recovered(archive, Log([]), WHOLE, clock=clock)
    first = filling.more()
    clock.pump([0.1] * 9)
    assert not first.called
    clock.pump([0.1] * 10)
    assert offsets(first) == [1]
    assert filling.lost_before() == []
    assert offsets(filling.more()) == [3]
    assert [(each.origin, each.after, each.upto) for each in filling.lost_before()] == [
        (GONE, (1, 1), (1, 2))
    ]
    assert [*offsets(filling.more()), *offsets(filling.more())] == [1, 2, 3]
    assert filling.lost_before() == []
    assert offsets(filling.more()) == []
    assert filling.lost() == []
    assert filling.lost_places == 1
    assert len(archive.asked) == 1


def test_what_was_written_again_before_a_second_replay_is_not_lost() -> None:
    clock, archive = Clock(), Archived(damaged=frozenset({3}), fails=1)
    filling = recovered(archive, Log([]), WHOLE, clock=clock)
    first = filling.more()
    clock.pump([0.5] * 4)
    assert offsets(first) == [1, 2]
    archive.damaged = frozenset()
    assert sorted(all_of(filling)) == IN_ORDER[2:]
    assert (filling.lost(), filling.lost_places) == ([], 0)


def test_nobody_waits_for_what_was_damaged_long_ago() -> None:
    archive = Archived(damaged=frozenset({2}))
    filling = recovered(archive, Log([]), WHOLE)
    assert all_of(filling) == [each for each in IN_ORDER if each != (GONE, 2)]
    assert filling.lost_places == 1
    assert len(archive.asked) == 1


MANY = MAX_LOG_PLACES
"""So many others are under way that the archive is asked first."""


@pytest.mark.parametrize("of", ["a replica", "this node's log"])
def test_what_the_archive_lost_comes_of_logs_in_its_order(of: str) -> None:
    archive = Archived(damaged=frozenset({2}))
    replica = of == "a replica"
    log = Log([GONE] if replica else [])
    filling = recovered(archive, log, WHOLE, busy=MANY, scraps=[] if replica else [2])
    assert all_of(filling) == IN_ORDER
    assert filling.lost() == []
    assert len(archive.asked) == 1


def test_a_node_that_is_cut_off_is_waited_for_while_the_archive_may_heal() -> None:
    clock, archive = Clock(), Archived(damaged=frozenset({2}), heals=True)
    log = Log([GONE], is_there=False)
    filling = recovered(archive, log, WHOLE, clock=clock, busy=MANY)
    first = filling.more()
    clock.pump([0.5] * 60)
    assert not first.called
    log.is_there = True
    clock.advance(0.5)
    assert offsets(first) == [1, 2, 3, 1, 2, 3]
    assert offsets(filling.more()) == []
    assert filling.lost() == []


def test_what_was_lost_before_a_replay_broke_off_is_told() -> None:
    archive = Archived(damaged=frozenset({2}), fails=1)
    filling = recovered(archive, Log([]), WHOLE)
    lost: list[Lost] = []
    assert all_of(filling, lost) == [each for each in IN_ORDER if each != (GONE, 2)]
    assert len(archive.asked) == 2
    assert [(each.after, each.upto) for each in lost] == [((1, 1), (1, 2))]


class Wide(Archived):
    """An archive that has lost a file whose places lie among those of others."""

    def start_replay(self, request: ReplayRequest) -> OneReplay:
        return attrs.evolve(super().start_replay(request), lost=[(GONE, (0, 0), (1, 3))])


def test_no_gap_is_told_for_what_came_of_another_file() -> None:
    filling = recovered(Wide(damaged=frozenset({2})), Log([]), WHOLE)
    lost: list[Lost] = []
    assert all_of(filling, lost) == [each for each in IN_ORDER if each != (GONE, 2)]
    assert [(each.after, each.upto) for each in lost] == [((1, 1), (1, 2))]
