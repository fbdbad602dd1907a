"""The newest histories of each origin that frames have named (`broker.log.histories`).

Two processes on copies of one log may give places in one epoch: they were started within 250 ms, or
by clocks that are behind. A place alone does not tell which of them gave it. The id of the history
does. The branch places tell the home where a place of another process leaves its own log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker.event.place import Mark, NamedHistory
from broker.wire import fields

#: Histories of an origin that a node stores: the newest ones.
MAX_HISTORIES = 8


def check_history(value: Any) -> NamedHistory:
    """The history that these plain values name. Raises `ValueError` or `TypeError`."""
    epoch, id, branch = value
    return (*fields.mark((epoch, id)), fields.mark(branch))


def check_path(value: Any) -> tuple[NamedHistory, ...]:
    """At most `MAX_HISTORIES` histories, rising. Raises `ValueError` or `TypeError`."""
    path = tuple(map(check_history, value))
    if len(path) > MAX_HISTORIES or sorted(set(path)) != list(path):
        raise ValueError("no path of histories")
    return path


def _no_histories(_: str) -> tuple[NamedHistory, ...]:
    return ()


class KnownHistories:
    """One node's."""

    def __init__(self, stored: Callable[[str], tuple[NamedHistory, ...]] = _no_histories) -> None:
        """`stored` returns what an earlier process of this node has noted."""
        self._stored = stored
        self._known: dict[str, tuple[NamedHistory, ...]] = {}

    def histories_of(self, origin: str) -> tuple[NamedHistory, ...]:
        """The histories of an origin that frames have named, the newest one last."""
        if origin not in self._known:
            self._known[origin] = self._stored(origin)
        return self._known[origin]

    def contradicts(self, origin: str, history: NamedHistory | None, at: Mark | None) -> bool:
        """Whether a frame is of another process than the places that this node has.

        `at` is where the node stands. Before it has got into that epoch it may follow either one.
        """
        known = self.histories_of(origin)
        if history is None or not known or at is None:
            return False
        epoch, id, _ = known[-1]
        return history[0] == epoch == at[0] and history[1] != id

    def record_history(self, origin: str, history: NamedHistory) -> bool:
        """A frame that does not contradict named this one; whether it is the newest from now on."""
        known = self.histories_of(origin)
        if known and (history[:2] == known[-1][:2] or history[0] < known[-1][0]):
            return False
        before = [each for each in known if each[0] < history[0]]
        self._known[origin] = (*before, history)[-MAX_HISTORIES:]
        return True

    def path_to(self, origin: str, mark: Mark) -> tuple[NamedHistory, ...]:
        """The histories that led to a place, up to its own; nothing if that is not known."""
        found = tuple([each for each in self.histories_of(origin) if each[0] <= mark[0]])
        return found if found and found[-1][0] == mark[0] else ()

    def forget_origin(self, origin: str) -> None:
        """Follow whoever speaks next."""
        self._known[origin] = ()
