"""A recovery waits for unreachable nodes; and recovery of only the last events."""

from __future__ import annotations

import pytest
from twisted.internet.task import Clock

from broker.delivery.recovery_contract import MarkRange
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


def test_an_unreachable_node_with_the_only_copy_is_awaited() -> None:
    clock, node = Clock(), Log([GONE], is_there=False)
    recovery = recovered(None, node, WHOLE, clock=clock)
    assert offsets(recovery.next_events()) == [1, 2, 3]
    later = recovery.next_events()
    clock.advance(PATIENCE - 1)
    assert not later.called
    assert recovery.snapshot()["stage"] == "cut off"
    node.is_there = True
    clock.advance(1)
    assert offsets(later) == [1, 2, 3]
    assert offsets(recovery.next_events()) == []
    assert recovery.remaining_losses() == []
    assert recovery.events_by_source == {"logs": 6}


@pytest.mark.parametrize("comes", [False, True])
def test_a_known_end_behind_the_archive_is_awaited(comes: bool) -> None:
    clock, node = Clock(), Log([GONE], is_there=False)
    ranges: dict[str, MarkRange] = {GONE: ((0, 0), None)}
    recovery = recovered(Behind(), node, ranges, clock=clock, known={GONE: (1, 3)})
    assert offsets(recovery.next_events()) == [1, 2]
    later = recovery.next_events()
    clock.pump([1.0] * int(PATIENCE - 2))
    assert not later.called
    node.is_there = comes
    clock.pump([1.0] * 3)
    assert offsets(later) == ([3] if comes else [])
    if comes:
        assert offsets(recovery.next_events()) == []
    lost = [] if comes else [(GONE, (1, 2), (1, 3))]
    assert [(each.origin, each.after, each.upto) for each in recovery.remaining_losses()] == lost
    assert recovery.open_range_ends() == {GONE: (1, 3 if comes else 2)}


@pytest.mark.parametrize("comes", [False, True])
def test_the_own_log_is_no_final_source_in_a_network(comes: bool) -> None:
    """It has only those events of other origins that its subscriptions needed."""
    clock, node = Clock(), Log([GONE], is_there=False)
    recovery = recovered(None, node, {GONE: ((0, 0), (1, 3))}, clock=clock)
    later = recovery.next_events()
    clock.pump([1.0] * int(PATIENCE - 1))
    assert not later.called
    node.is_there = comes
    clock.pump([1.0] * 2)
    assert offsets(later) == ([1, 2, 3] if comes else [])
    if comes:
        assert offsets(recovery.next_events()) == []
    assert len(recovery.remaining_losses()) == (not comes)


def test_a_range_of_a_node_that_does_not_return_is_lost() -> None:
    clock, node = Clock(), Log([GONE], is_there=False)
    recovery = recovered(None, node, WHOLE, clock=clock)
    assert offsets(recovery.next_events()) == [1, 2, 3]
    later = recovery.next_events()
    clock.pump([1.0] * int(PATIENCE - 1))
    assert not later.called
    clock.advance(1)
    assert offsets(later) == []
    assert [each.origin for each in recovery.remaining_losses()] == [GONE]


@pytest.mark.parametrize(
    ("scraps", "lost"),
    [
        ([2], [((0, 0), (1, 1)), ((1, 2), (1, 3))]),
        ([1, 3], [((1, 1), (1, 2))]),
        ([1, 2, 3], []),
    ],
)
def test_events_logged_for_other_subscriptions_are_the_last_resort(
    scraps: list[int], lost: list[tuple[Mark, Mark]]
) -> None:
    """It is known here, so it does not come again at another node's place."""
    clock, node = Clock(), Log([GONE], is_there=False)
    recovery = recovered(None, node, {GONE: ((0, 0), (1, 3))}, clock=clock, scraps=scraps)
    later = recovery.next_events()
    clock.pump([1.0] * int(PATIENCE - 1))
    assert not later.called
    clock.advance(1)
    found = offsets(later)
    losses = list(recovery.preceding_losses())
    found += [offset for _, offset in all_of(recovery, losses)]
    assert found == scraps
    assert [(each.after, each.upto) for each in losses] == lost


def test_a_replica_does_not_answer_for_its_origin_node() -> None:
    """The replica had to drop events, and the node may return."""
    clock, keeper = Clock(), Log([], origin="c" * 16)
    recovery = recovered(None, keeper, WHOLE, clock=clock)
    assert offsets(recovery.next_events()) == [1, 2, 3]
    later = recovery.next_events()
    keeper.has = [GONE]
    clock.advance(1)
    assert offsets(later) == [1, 2, 3]


def test_a_cancelled_recovery_does_not_wait() -> None:
    clock, node = Clock(), Log([GONE], is_there=False)
    recovery = recovered(None, node, WHOLE, clock=clock)
    assert offsets(recovery.next_events()) == [1, 2, 3]
    later = recovery.next_events()
    recovery.cancel()
    clock.advance(1)
    assert offsets(later) == []
    assert not clock.getDelayedCalls()


@pytest.mark.parametrize("last", [1, 4, 6, 9])
def test_the_last_events_are_the_newest_of_all_sources(last: int) -> None:
    recovery = recovered(None, Log([GONE]), WHOLE, last=last)
    assert all_of(recovery) == IN_ORDER[-last:]
    found = recovery.snapshot()
    assert (found["looked_at"], found["of"], found["events"]) == (0, 0, min(last, 6))
