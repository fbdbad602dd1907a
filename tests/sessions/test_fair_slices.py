from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from twisted.trial.unittest import SynchronousTestCase

from broker.sessions.fair_slices import FAIR_SLICE_SECONDS, FairSlices


class Turns:
    """A clock in which work takes time, and that runs turns of a reactor."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls: list[Callable[[], object]] = []
        self.delay = 0.0

    def seconds(self) -> float:
        return self.now

    def callLater(self, delay: float, call: Callable[..., object], *of: Any) -> None:
        self.delay = delay
        self.calls.append(partial(call, *of))

    def run_turn(self) -> None:
        calls, self.calls = self.calls, []
        for call in calls:
            call()


class FairSlicesTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.turns = Turns()
        self.slices = FairSlices(cast(Any, self.turns))
        self.done: list[str] = []

    def start(self, holder: str, seconds: float = FAIR_SLICE_SECONDS) -> None:
        def work() -> str:
            self.turns.now += seconds
            return holder

        self.slices.run(holder, work).addCallback(self.done.append)

    def test_a_turn_of_the_reactor_has_one_slice_and_the_first_piece_runs_at_once(self) -> None:
        for _ in range(3):
            self.start("a")
        assert self.done == ["a"]
        for count in (2, 3, 3):
            self.turns.run_turn()
            assert len(self.done) == count
        assert not self.turns.calls
        self.start("a")
        assert len(self.done) == 4

    def test_short_pieces_share_a_slice(self) -> None:
        for _ in range(10):
            self.start("a", FAIR_SLICE_SECONDS / 4)
        self.turns.run_turn()
        assert len(self.done) == 5

    def test_other_work_has_the_time_of_a_long_piece(self) -> None:
        self.start("a", FAIR_SLICE_SECONDS * 1.5)
        assert self.turns.delay == 0
        self.start("a", FAIR_SLICE_SECONDS * 11)
        self.turns.run_turn()
        self.assertAlmostEqual(self.turns.delay, FAIR_SLICE_SECONDS * 10)
        self.start("b", 0.0)
        assert self.done == ["a", "a"]
        self.turns.run_turn()
        assert self.done == ["a", "a", "b"] and self.turns.delay == 0

    def test_holders_have_their_turns(self) -> None:
        for holder in ("a", "a", "a", "a", "b", "b", "c"):
            self.start(holder)
        for _ in range(6):
            self.turns.run_turn()
        assert self.done == ["a", "a", "b", "c", "a", "b", "a"]

    def test_work_that_follows_a_result_comes_behind_that_of_others(self) -> None:
        self.start("z")
        self.slices.run("a", lambda: None).addCallback(lambda _: self.start("a", 0.0))
        self.start("b", 0.0)
        self.turns.run_turn()
        assert self.done == ["z", "b", "a"]

    def test_an_error_goes_to_the_caller_alone(self) -> None:
        failed = self.slices.run("a", lambda: 1 // 0)
        self.start("b")
        self.turns.run_turn()
        self.failureResultOf(failed, ZeroDivisionError)
        assert self.done == ["b"]
