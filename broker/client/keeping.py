"""Writes a client's positions beside its loop: a disk may take its time."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping

from broker.client.effects import Left
from broker.client.positions_file import PositionsFile
from broker.errors import BrokerError, SessionSuperseded

_log = logging.getLogger(__name__)


class Keeping:
    """One write at a time, of the newest positions; those that come meanwhile are written after."""

    def __init__(self, file: PositionsFile, aside: Callable[[Callable[[], None]], None]) -> None:
        """`aside` calls something in another thread."""
        self._file = file
        self._aside = aside
        self._turn = threading.Lock()
        self._waiting: deque[Mapping[str, Left]] = deque(maxlen=1)
        self._under_way = False
        self._superseded = False
        self.error: BrokerError | None = None
        """Why the newest write failed. The client goes on; its next process may get events again
        that this one has processed."""

    def keep(self, durables: Mapping[str, Left]) -> None:
        """Write these soon."""
        self._waiting.append(durables)
        if not self._under_way:
            self._under_way = True
            self._aside(self._write_aside)

    def finish(self) -> None:
        """Write what waits now, in this thread: the process may end."""
        self._write()

    def _write_aside(self) -> None:
        # What came between the last look and this is taken up by the call that it makes itself.
        self._under_way = False
        self._write()

    def _write(self) -> None:
        # Who has the turn takes the newest: an older one is never written after it.
        with self._turn:
            if not self._waiting or self._superseded:
                return
            try:
                self._file.write(self._waiting.popleft())
                self.error = None
            except SessionSuperseded:
                self._superseded = True
            except BrokerError as error:
                if self.error is None:
                    _log.warning("%s", error)
                self.error = error
