"""Turns on the reactor: who has much to do does it in pieces, and others come in between.

A turn is bounded by the clock, which is looked at between two pieces, so a piece has to be small
against a turn. Where that is documents, how many they are is found out while they are matched.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.transport.clock import IClock

#: How long one session may begin something more, while others wait.
SLICE_SECONDS = 0.02
#: How long what was begun may take, where that can be told: documents are matched as long as this.
MAX_SLICE_SECONDS = 0.025
#: The most documents that are matched at one go: more would cost no less each.
MAX_DOCUMENTS = 2_048


class TimeSlices:
    """Work that is done now, or where that takes long in turns that follow.

    `step` does the next piece, if there is one, and says whether there is more. What it raises goes
    to the caller in the first turn and to `failed` in a later one; nothing more is done then.
    """

    def __init__(
        self, clock: IClock, step: Callable[[], bool], on_failed: Callable[[Exception], object]
    ) -> None:
        self._clock = clock
        self._step = step
        self._on_failed = on_failed
        self._is_running = False
        """Now, or in a turn to come: whoever brings more meanwhile brings it behind that."""
        self._started = 0.0

    @property
    def seconds_left(self) -> float:
        """Seconds that what is begun now may take."""
        return max(0.0, MAX_SLICE_SECONDS - (self._clock.seconds() - self._started))

    def run(self) -> None:
        """Do what there is to do, from now on."""
        if not self._is_running:
            self._is_running = True
            self._run_slice()

    def run_later(self) -> None:
        """Do what there is to do, from the next turn on."""
        if not self._is_running:
            self._is_running = True
            self._clock.callLater(0, self._run_later_slice)

    def _run_slice(self) -> None:
        self._started = self._clock.seconds()
        while self._step():
            if self._clock.seconds() - self._started >= SLICE_SECONDS:
                self._clock.callLater(0, self._run_later_slice)
                return
        self._is_running = False

    def _run_later_slice(self) -> None:
        try:
            self._run_slice()
        except Exception as error:
            self._on_failed(error)
