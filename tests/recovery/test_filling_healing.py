"""A recovery waits for what is damaged in the archive, while somebody may write it again."""

from __future__ import annotations

import pytest
from twisted.internet.task import Clock

from broker.recovery.request import ReplayRequest
from tests.recovery.test_filling import (
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

    def replay(self, request: ReplayRequest) -> OneReplay:
        if not self.asked:
            self.damaged, self.heals = frozenset({2}), True
        return super().replay(request)


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
    assert offsets(first) == [1, 3]
    assert [*offsets(filling.more()), *offsets(filling.more())] == [1, 2, 3]
    assert offsets(filling.more()) == []
    assert [(each.origin, each.after, each.upto) for each in filling.lost()] == [
        (GONE, (1, 1), (1, 2))
    ]
    assert len(archive.asked) == 1


def test_nobody_waits_for_what_was_damaged_long_ago() -> None:
    archive = Archived(damaged=frozenset({2}))
    filling = recovered(archive, Log([]), WHOLE)
    assert all_of(filling) == [each for each in IN_ORDER if each != (GONE, 2)]
    assert len(filling.lost()) == 1
    assert len(archive.asked) == 1
