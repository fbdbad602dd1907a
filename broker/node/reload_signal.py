"""SIGHUP as the signal for a reload, from the first to the last moment of the process."""

from __future__ import annotations

import signal
from collections.abc import Callable


class ReloadSignal:
    """Keeps a signal that comes while the node starts, which would end the process otherwise."""

    def __init__(self) -> None:
        self._has_come = False
        self._reload: Callable[[], object] | None = None

    def catch(self) -> None:
        """Call it before the configuration is read."""
        signal.signal(signal.SIGHUP, lambda *_: self._receive())

    def connect(self, reload: Callable[[], object]) -> None:
        """Let `reload` run at each signal from now on, and for one that has come."""
        self._reload = reload
        if self._has_come:
            self._has_come = False
            reload()

    def ignore(self) -> None:
        """Call it when the node stops."""
        self._reload = lambda: None

    def _receive(self) -> None:
        if self._reload is None:
            self._has_come = True
        else:
            self._reload()
