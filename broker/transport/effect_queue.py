"""The queue of a stack: effects and inputs, carried out one after another."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from broker.errors import BrokerError
from broker.transport.deadline_timer import DeadlineTimer
from broker.transport.effects import Effect


class TimedCore(Protocol):
    def next_timeout(self) -> float | None:
        """Return the absolute time of the next timeout."""


class CoreOwner(Protocol):
    """The layers of a link, or those above all links."""

    @property
    def timed_cores(self) -> Sequence[TimedCore]: ...

    @property
    def timer(self) -> DeadlineTimer: ...

    @property
    def failure(self) -> BrokerError | None: ...

    def apply_effect(self, height: int, effect: Effect) -> None:
        """Apply an effect of the core at `height`."""


class EffectQueue:
    """Runs until no effect and no input is left; all effects come before the next input.

    `touched` are the owners of cores that were called: their timers are armed after the run, in
    this order.
    """

    def __init__(self) -> None:
        self.inputs: deque[tuple[Callable[..., None], tuple[object, ...]]] = deque()
        self.effects: deque[tuple[CoreOwner, int, Effect]] = deque()
        self.touched: dict[CoreOwner, None] = {}
        self.is_running = False

    def enqueue(self, function: Callable[..., None], *args: object) -> None:
        """Call a function after all that is in the queue."""
        self.inputs.append((function, args))
        if not self.is_running:
            self.run()

    def perform(self, function: Callable[..., None], *args: object) -> None:
        """Call a function now, as a part of the present run or of one that it begins."""
        was_running, self.is_running = self.is_running, True
        try:
            function(*args)
        finally:
            self.is_running = was_running
        if not was_running:
            self.run()

    def drop(self, is_obsolete: Callable[[CoreOwner, Effect], bool]) -> None:
        kept = [each for each in self.effects if not is_obsolete(each[0], each[2])]
        self.effects.clear()
        self.effects.extend(kept)

    def run(self) -> None:
        if self.is_running:
            return
        self.is_running = True
        effects, inputs = self.effects, self.inputs
        try:
            while True:
                if effects:
                    owner, height, effect = effects.popleft()
                    owner.apply_effect(height, effect)
                elif inputs:
                    function, args = inputs.popleft()
                    function(*args)
                else:
                    break
        finally:
            self.is_running = False
        for owner in self.touched:
            deadline = None
            for core in owner.timed_cores if owner.failure is None else ():
                due = core.next_timeout()
                if due is not None and (deadline is None or due < deadline):
                    deadline = due
            # An early call costs less than arming the timer with every packet.
            armed = owner.timer.deadline
            if deadline is None or armed is None or deadline < armed:
                owner.timer.arm(deadline)
        self.touched.clear()
