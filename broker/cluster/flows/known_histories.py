"""The newest history of each origin that frames have named (`broker.store.histories`).

Two processes on copies of one log may give places in one epoch: they were started within 250 ms, or
by clocks that are behind. A place alone does not tell which of them gave it. The id of the history
does.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.event.place import HistoryId, Mark


def _nothing(_: str) -> HistoryId | None:
    return None


class KnownHistories:
    """One node's."""

    def __init__(self, stored: Callable[[str], HistoryId | None] = _nothing) -> None:
        """`stored` returns what an earlier process of this node has noted."""
        self._stored = stored
        self._known: dict[str, HistoryId | None] = {}

    def of(self, origin: str) -> HistoryId | None:
        """The newest history of an origin; None if no frame has named one."""
        if origin not in self._known:
            self._known[origin] = self._stored(origin)
        return self._known[origin]

    def contradicts(self, origin: str, history: HistoryId | None, at: Mark | None) -> bool:
        """Whether a frame is of another process than the places that this node has.

        `at` is where the node stands. Before it has got into that epoch it may follow either one.
        """
        known = self.of(origin)
        if history is None or known is None or at is None:
            return False
        return history[0] == known[0] == at[0] and history[1] != known[1]

    def note(self, origin: str, history: HistoryId | None) -> bool:
        """A frame that does not contradict named this one; whether it is the newest from now on."""
        known = self.of(origin)
        if history is None or history == known or (known is not None and history[0] < known[0]):
            return False
        self._known[origin] = history
        return True

    def id_at(self, origin: str, mark: Mark) -> int:
        """The id of the history that a place is of; 0 if it is not known."""
        known = self.of(origin)
        return known[1] if known is not None and known[0] == mark[0] else 0

    def forget(self, origin: str) -> None:
        """Follow whoever speaks next."""
        self._known[origin] = None
