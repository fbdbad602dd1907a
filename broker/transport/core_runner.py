"""Runner of sans-I/O cores: applies their effects in order, and owns their timer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar, TypeVarTuple

from broker.transport.clock import IClock
from broker.transport.deadline_timer import DeadlineTimer

EffectT = TypeVar("EffectT")
EffectT_co = TypeVar("EffectT_co", covariant=True)
Arguments = TypeVarTuple("Arguments")


class ICore(Protocol[EffectT_co]):
    """A sans-I/O core with a deadline."""

    def next_timeout(self) -> float | None:
        """Return the time of the next `handle_timeout`."""

    def handle_timeout(self, now: float) -> Iterable[EffectT_co]:
        """Return the effects that are due."""


class CoreRunner(Generic[EffectT]):
    """Runs sans-I/O cores; `apply` carries out one effect.

    Effects that arise meanwhile wait for all earlier ones. So no core is called while it runs.
    """

    def __init__(
        self, clock: IClock, apply: Callable[[EffectT], object], *cores: ICore[EffectT]
    ) -> None:
        self._clock = clock
        self._apply = apply
        self._cores = cores
        self._effects: deque[EffectT] = deque()
        self._is_applying = False
        self._timer = DeadlineTimer(clock, self._handle_timeout)

    @property
    def is_stopped(self) -> bool:
        return not self._cores

    def start(self, *cores: ICore[EffectT]) -> None:
        self._cores = cores

    def stop(self) -> None:
        self._cores = ()
        self._effects.clear()
        self._timer.arm(None)

    def call(
        self, operation: Callable[[*Arguments, float], Iterable[EffectT]], *arguments: *Arguments
    ) -> None:
        """Call a core's method with the present time as its last argument."""
        self.apply_effects(operation(*arguments, self._clock.seconds()))

    def apply_effects(self, effects: Iterable[EffectT] = ()) -> None:
        if self._cores:
            self._effects.extend(effects)
        if self._is_applying:
            return
        self._is_applying = True
        try:
            while self._effects:
                self._apply(self._effects.popleft())
        finally:
            self._is_applying = False
        times = [time for core in self._cores if (time := core.next_timeout()) is not None]
        self._timer.arm(min(times, default=None))

    def replace_effects(self, replace: Callable[[EffectT], EffectT]) -> None:
        """Replace effects that are not applied yet."""
        self._effects = deque(map(replace, self._effects))

    def _handle_timeout(self) -> None:
        cores = self._cores
        for core in cores:
            if cores is self._cores:
                self.call(core.handle_timeout)
