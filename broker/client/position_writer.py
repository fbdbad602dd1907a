"""Writing of a client's newest positions in another thread: a disk may block."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping

from broker.client.effects import ResumePoint
from broker.client.positions_file import PositionsFile
from broker.errors import BrokerError, SessionSuperseded

_log = logging.getLogger(__name__)


class PositionWriter:
    def __init__(
        self, file: PositionsFile, run_in_thread: Callable[[Callable[[], None]], None]
    ) -> None:
        self._file = file
        self._run_in_thread = run_in_thread
        self._lock = threading.Lock()
        self._pending: deque[Mapping[str, ResumePoint]] = deque(maxlen=1)
        self._is_scheduled = False
        self._is_superseded = False
        self.error: BrokerError | None = None

    def write_soon(self, durables: Mapping[str, ResumePoint]) -> None:
        self._pending.append(durables)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._run_in_thread(self._write_in_thread)

    def write_now(self) -> None:
        """Write in this thread, since the process may end."""
        self._write()

    def _write_in_thread(self) -> None:
        # Later positions schedule a call of their own.
        self._is_scheduled = False
        self._write()

    def _write(self) -> None:
        # An older position must not be written after a newer one.
        with self._lock:
            if not self._pending or self._is_superseded:
                return
            try:
                self._file.write(self._pending.popleft())
                self.error = None
            except SessionSuperseded:
                self._is_superseded = True
            except BrokerError as error:
                if self.error is None:
                    _log.warning("%s", error)
                self.error = error
