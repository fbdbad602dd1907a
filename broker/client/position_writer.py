"""Writes a client's positions beside its loop: a disk may take its time."""

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
    """One write at a time, of the newest positions; those that come meanwhile are written after."""

    def __init__(
        self, file: PositionsFile, run_in_thread: Callable[[Callable[[], None]], None]
    ) -> None:
        """`run_in_thread` calls something in another thread."""
        self._file = file
        self._run_in_thread = run_in_thread
        self._lock = threading.Lock()
        self._pending: deque[Mapping[str, ResumePoint]] = deque(maxlen=1)
        self._is_scheduled = False
        self._is_superseded = False
        self.error: BrokerError | None = None
        """Why the newest write failed. The client goes on; its next process may get events again
        that this one has processed."""

    def write_soon(self, durables: Mapping[str, ResumePoint]) -> None:
        """Write these soon."""
        self._pending.append(durables)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._run_in_thread(self._write_in_thread)

    def write_now(self) -> None:
        """Write what waits now, in this thread: the process may end."""
        self._write()

    def _write_in_thread(self) -> None:
        # What came between the last look and this is taken up by the call that it makes itself.
        self._is_scheduled = False
        self._write()

    def _write(self) -> None:
        # Who has the turn takes the newest: an older one is never written after it.
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
