"""A recovery waits for nodes that can not be reached; and one of the last events alone."""

from __future__ import annotations

import pytest
from twisted.internet.task import Clock

from broker.delivery.recovery import MarkRange
from broker.event.place import Mark
from tests.recovery.test_subscription_recovery import (
    GONE,
    IN_ORDER,
    PATIENCE,
    WHOLE,
    Behind,
    Log,
    all_of,
    offsets,
    recovered,
)


def test_what_a_node_alone_has_is_waited_for_while_there_is_no_way_to_it() -> None:
    clock, node = Clock(), Log([GONE], is_there=False)
    filling = recovered(None, node, WHOLE, clock=clock)
    assert offsets(filling.more()) == [1, 2, 3]
    later = filling.more()
    clock.advance(PATIENCE - 1)
    assert not later.called
    assert filling.snapshot()["stage"] == "cut off"
    node.is_there = True
    clock.advance(1)
    assert offsets(later) == [1, 2, 3]
    assert offsets(filling.more()) == []
    assert filling.lost() == []
    assert filling.events_by_source == {"logs": 6}


@pytest.mark.parametrize("comes", [False, True])
def test_what_is_known_to_lie_behind_what_the_archive_has_is_waited_for(comes: bool) -> None:
    clock, node = Clock(), Log([GONE], is_there=False)
    ranges: dict[str, MarkRange] = {GONE: ((0, 0), None)}
    filling = recovered(Behind(), node, ranges, clock=clock, known={GONE: (1, 3)})
    assert offsets(filling.more()) == [1, 2]
    later = filling.more()
    clock.pump([1.0] * int(PATIENCE - 2))
    assert not later.called
    node.is_there = comes
    clock.pump([1.0] * 3)
    assert offsets(later) == ([3] if comes else [])
    if comes:
        assert offsets(filling.more()) == []
    lost = [] if comes else [(GONE, (1, 2), (1, 3))]
    assert [(each.origin, each.after, each.upto) for each in filling.lost()] == lost
    assert filling.reached() == {GONE: (1, 3 if comes else 2)}


@pytest.mark.parametrize("comes", [False, True])
def test_the_own_log_is_not_all_that_there_is_where_others_may_come_back(comes: bool) -> None:
    """It has of other origins what was wanted here, and no more: that is not what was missed."""
    clock, node = Clock(), Log([GONE], is_there=False)
    filling = recovered(None, node, {GONE: ((0, 0), (1, 3))}, clock=clock)
    later = filling.more()
    clock.pump([1.0] * int(PATIENCE - 1))
    assert not later.called
    node.is_there = comes
    clock.pump([1.0] * 2)
    assert offsets(later) == ([1, 2, 3] if comes else [])
    if comes:
        assert offsets(filling.more()) == []
    assert len(filling.lost()) == (not comes)


def test_what_no_node_comes_back_for_is_lost_in_the_end() -> None:
    clock, node = Clock(), Log([GONE], is_there=False)
    filling = recovered(None, node, WHOLE, clock=clock)
    assert offsets(filling.more()) == [1, 2, 3]
    later = filling.more()
    clock.pump([1.0] * int(PATIENCE - 1))
    assert not later.called
    clock.advance(1)
    assert offsets(later) == []
    assert [each.origin for each in filling.lost()] == [GONE]


@pytest.mark.parametrize(
    ("scraps", "lost"),
    [
        ([2], [((0, 0), (1, 1)), ((1, 2), (1, 3))]),
        ([1, 3], [((1, 1), (1, 2))]),
        ([1, 2, 3], []),
    ],
)
def test_what_this_node_logged_for_others_comes_before_the_rest_is_lost(
    scraps: list[int], lost: list[tuple[Mark, Mark]]
) -> None:
    """It does not come again under the place that another node gives it: it is known here."""
    clock, node = Clock(), Log([GONE], is_there=False)
    filling = recovered(None, node, {GONE: ((0, 0), (1, 3))}, clock=clock, scraps=scraps)
    later = filling.more()
    clock.pump([1.0] * int(PATIENCE - 1))
    assert not later.called
    clock.advance(1)
    found = offsets(later)
    told = list(filling.lost_before())
    found += [offset for _, offset in all_of(filling, told)]
    assert found == scraps
    assert [(each.after, each.upto) for each in told] == lost


def test_a_keeper_does_not_speak_for_the_node_whose_copies_it_has() -> None:
    """It has had to drop its copies, and that node may come back."""
    clock, keeper = Clock(), Log([], origin="c" * 16)
    filling = recovered(None, keeper, WHOLE, clock=clock)
    assert offsets(filling.more()) == [1, 2, 3]
    later = filling.more()
    keeper.has = [GONE]
    clock.advance(1)
    assert offsets(later) == [1, 2, 3]


def test_nobody_waits_for_what_is_cancelled() -> None:
    clock, node = Clock(), Log([GONE], is_there=False)
    filling = recovered(None, node, WHOLE, clock=clock)
    assert offsets(filling.more()) == [1, 2, 3]
    later = filling.more()
    filling.cancel()
    clock.advance(1)
    assert offsets(later) == []
    assert not clock.getDelayedCalls()


@pytest.mark.parametrize("last", [1, 4, 6, 9])
def test_the_last_events_are_the_newest_of_all_sources(last: int) -> None:
    filling = recovered(None, Log([GONE]), WHOLE, last=last)
    assert all_of(filling) == IN_ORDER[-last:]
    told = filling.snapshot()
    assert (told["looked_at"], told["of"], told["events"]) == (0, 0, min(last, 6))
