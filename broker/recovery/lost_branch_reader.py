"""Reads this node's copies of events on a lost branch of a restored origin, in order of place."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import Final

from broker.event.place import Mark
from broker.log.logged_event import LoggedEvent
from broker.recovery.log_source import LogSource

MAX_EVENTS: Final = 256


class LostBranchReader:
    def __init__(
        self, log_source: LogSource, origin: str, branches: Iterable[tuple[Mark, Mark]]
    ) -> None:
        self._log_source = log_source
        self._origin = origin
        self._branches = deque(branches)
        self._events = self._read_branches()
        self._next_event: LoggedEvent | None = None

    async def read_before(self, mark: Mark | None) -> list[LoggedEvent]:
        """Return the next events, at most `MAX_EVENTS`, before a mark; None: all."""
        found: list[LoggedEvent] = []
        while len(found) < MAX_EVENTS:
            if self._next_event is None:
                if mark is not None and (not self._branches or mark <= self._branches[0][0]):
                    break
                self._next_event = await anext(self._events, None)
            if self._next_event is None or (mark is not None and self._next_event.mark >= mark):
                break
            found.append(self._next_event)
            self._next_event = None
        return found

    async def _read_branches(self) -> AsyncIterator[LoggedEvent]:
        while self._branches:
            async for event in self._log_source.read_lost_branch(self._origin, *self._branches[0]):
                yield event
            self._branches.popleft()
