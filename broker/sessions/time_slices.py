"""Time slices: long work runs in pieces, and other work of the reactor runs in between.

The clock is read between pieces, so a piece must be short compared with a slice.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.transport.clock import IClock

#: For one session to start pieces.
SLICE_SECONDS = 0.02
#: The matcher stops within a slice.
MAX_SLICE_SECONDS = 0.025
#: For logins, and for TLS handshakes of a port.
LOGIN_SLICE_SECONDS = 0.001
#: Then others' events come first: those that wait are committed in another turn of the reactor, and
#: sent in a third one. A thousand logins that take each second turn delay them threefold.
LOGIN_PAUSE_SECONDS = 0.003
#: For one call of the matcher; more would not cost less each.
MAX_DOCUMENTS = 2_048


class TimeSlices:
    """Work that runs now, and continues in later slices if it takes long.

    `step` returns True if more is left. Its exceptions go to the caller in the first slice, to
    `on_failed` in later ones; the work then stops.
    """

    def __init__(
        self,
        clock: IClock,
        step: Callable[[], bool],
        on_failed: Callable[[Exception], object],
        slice_seconds: float | None = None,
        pause_seconds: float = 0.0,
    ) -> None:
        """`pause_seconds` is the least time between two slices."""
        self._clock = clock
        self._step = step
        self._on_failed = on_failed
        self._slice_seconds = SLICE_SECONDS if slice_seconds is None else slice_seconds
        self._pause_seconds = pause_seconds
        self._is_running = False
        """Until the next slice; work that arrives meanwhile is appended."""
        self._started = 0.0

    @property
    def seconds_left(self) -> float:
        return max(0.0, MAX_SLICE_SECONDS - (self._clock.seconds() - self._started))

    def run(self) -> None:
        if not self._is_running:
            self._is_running = True
            self._run_slice()

    def run_later(self) -> None:
        """Start in the next turn of the reactor."""
        if not self._is_running:
            self._is_running = True
            self._clock.callLater(0, self._run_later_slice)

    def _run_slice(self) -> None:
        self._started = self._clock.seconds()
        while self._step():
            if self._clock.seconds() - self._started >= self._slice_seconds:
                self._clock.callLater(self._pause_seconds, self._run_later_slice)
                return
        self._is_running = False

    def _run_later_slice(self) -> None:
        try:
            self._run_slice()
        except Exception as error:
            self._on_failed(error)
