"""Newest histories of each origin, as named by frames (`broker.log.history`).

Two processes on copies of one log can assign places in one epoch, if they started within 250 ms or
with clocks that are behind. The history id tells them apart.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.event.place import Mark, NamedHistory

#: For each origin.
MAX_HISTORIES = 8


def _no_histories(_: str) -> tuple[NamedHistory, ...]:
    return ()


class KnownHistories:
    def __init__(self, stored: Callable[[str], tuple[NamedHistory, ...]] = _no_histories) -> None:
        """`stored` returns the histories from earlier processes of this node."""
        self._stored = stored
        self._known: dict[str, tuple[NamedHistory, ...]] = {}

    def histories_of(self, origin: str) -> tuple[NamedHistory, ...]:
        if origin not in self._known:
            self._known[origin] = self._stored(origin)
        return self._known[origin]

    def contradicts(self, origin: str, history: NamedHistory | None, at: Mark | None) -> bool:
        """Return True if a frame is of another process than this node's places.

        `at` is the node's position. Before it enters the epoch, the node may follow either process.
        """
        known = self.histories_of(origin)
        if history is None or not known or at is None:
            return False
        epoch, id, _ = known[-1]
        return history[0] == epoch == at[0] and history[1] != id

    def record_history(self, origin: str, history: NamedHistory) -> bool:
        known = self.histories_of(origin)
        if known and (history[:2] == known[-1][:2] or history[0] < known[-1][0]):
            return False
        before = [each for each in known if each[0] < history[0]]
        self._known[origin] = (*before, history)[-MAX_HISTORIES:]
        return True

    def path_to(self, origin: str, mark: Mark) -> tuple[NamedHistory, ...]:
        """Return the histories up to a place, ending with its own; empty if unknown."""
        found = tuple([each for each in self.histories_of(origin) if each[0] <= mark[0]])
        return found if found and found[-1][0] == mark[0] else ()

    def forget_origin(self, origin: str) -> None:
        """Follow the next frame's process."""
        self._known[origin] = ()
