"""Which places a run's disks tell of: the checker allows that nobody tells of others."""

from __future__ import annotations

from broker.event.place import Place
from broker.store.histories import History
from tests.soak.witnesses import Witnesses


def test_a_later_place_tells_of_those_before_it() -> None:
    witnesses = Witnesses()
    witnesses.tell("o", [(1, 5), (3, 9)])
    assert witnesses.know(Place("o", 1, 5))
    assert witnesses.know(Place("o", 2, 8))
    assert witnesses.know(Place("o", 1, 6))
    assert not witnesses.know(Place("o", 3, 10))
    assert not witnesses.know(Place("p", 1, 1))


def test_a_place_on_another_branch_does_not_tell_of_it() -> None:
    """The log was set back to its place 5 of epoch 1, and lost 6 to 8."""
    witnesses = Witnesses()
    witnesses.tell("o", [(1, 7), (3, 20), (4, 30)])
    witnesses.began("o", [History(1, 11, 0, (0, 0)), History(3, 13, 1, (1, 5))])
    assert witnesses.know(Place("o", 1, 5))
    assert witnesses.know(Place("o", 1, 7))
    assert not witnesses.know(Place("o", 1, 8))
    assert not witnesses.know(Place("o", 2, 8))
    assert witnesses.know(Place("o", 3, 20))
    witnesses.tell("o", [(2, 8)])
    assert witnesses.know(Place("o", 2, 8))
