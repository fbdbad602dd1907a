from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest
from twisted.internet.task import Clock

from broker.transport.core_runner import CoreRunner


@attrs.define(eq=False)
class Core:
    """Returns its name when `deadline` is due."""

    name: str
    deadline: float | None = None

    def next_timeout(self) -> float | None:
        return self.deadline

    def handle_timeout(self, now: float) -> list[str]:
        if self.deadline is None or now < self.deadline:
            return []
        self.deadline = None
        return [self.name]

    def receive(self, message: str, now: float) -> list[str]:
        return [f"{message} at {now:g}", "end"]


class Run:
    def __init__(self, *cores: Core) -> None:
        self.clock = Clock()
        self.applied: list[str] = []
        self.on_effect: dict[str, Callable[[], None]] = {}
        self.runner: CoreRunner[str] = CoreRunner(self.clock, self._apply, *cores)

    def _apply(self, effect: str) -> None:
        self.on_effect.get(effect, lambda: None)()
        self.applied.append(effect)


def test_a_call_gets_the_time_and_arms_the_timer_for_the_earliest_deadline() -> None:
    first, second, third = Core("first", 2.0), Core("second", 1.0), Core("third")
    run = Run(first, second, third)
    run.runner.call(first.receive, "message")
    assert run.applied == ["message at 0", "end"]
    run.clock.advance(1.0)
    assert run.applied[2:] == ["second"]
    run.clock.advance(1.0)
    assert run.applied[3:] == ["first"]
    assert run.clock.getDelayedCalls() == []


def test_effects_that_arise_meanwhile_wait_for_earlier_ones() -> None:
    core = Core("core")
    run = Run(core)
    run.on_effect["message at 0"] = lambda: run.runner.apply_effects(["later"])
    run.runner.call(core.receive, "message")
    assert run.applied == ["message at 0", "end", "later"]


def test_a_stopped_runner_applies_nothing() -> None:
    core = Core("core", 1.0)
    run = Run(core)
    run.runner.apply_effects()
    run.on_effect["message at 0"] = run.runner.stop
    run.runner.call(core.receive, "message")
    run.runner.apply_effects(["late"])
    assert run.runner.is_stopped
    assert run.applied == ["message at 0"]
    assert run.clock.getDelayedCalls() == []


def test_a_core_that_is_replaced_during_a_timeout_is_not_called() -> None:
    first, second, later = Core("first", 1.0), Core("second", 1.0), Core("later", 2.0)
    run = Run(first, second)
    run.on_effect["first"] = lambda: run.runner.start(later)
    run.runner.apply_effects()
    run.clock.advance(1.0)
    assert run.applied == ["first"]
    run.clock.advance(1.0)
    assert run.applied == ["first", "later"]


def test_an_error_of_one_effect_leaves_the_others_for_the_next_call() -> None:
    core = Core("core")
    run = Run(core)

    def fail() -> None:
        raise ZeroDivisionError

    run.on_effect["message at 0"] = fail
    with pytest.raises(ZeroDivisionError):
        run.runner.call(core.receive, "message")
    run.runner.apply_effects(["next"])
    assert run.applied == ["end", "next"]
