"""The search for parents (DCP D58-D60, D66).

It begins at the roots. A node that refuses names its children, which are asked next. So parents are
as near to the roots as there is room, and of those the first to answer. The children of nodes that
accept are asked last: a mesh with fewer roots than parents ends in a node that all paths share.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from typing import Final

from broker.transport.backoff import Backoff
from plugins.dcp.endpoint import Endpoint
from plugins.dcp.settings import DcpSettings

#: Time for an answer to a join.
_ANSWER_SECONDS: Final = 5.0
_FIRST_WAIT: Final = 0.25
_MOST_WAIT: Final = 5.0
#: Nodes to ask in one pass.
_MOST_CANDIDATES: Final = 1_000


class ParentSearch:
    def __init__(
        self,
        endpoint: Endpoint,
        settings: DcpSettings,
        roots: Sequence[Hashable],
        backoff: Backoff,
    ) -> None:
        """Without roots it finds nothing: the node is one."""
        self.has_ended_pass = False
        """True when all known nodes were asked once."""
        self._endpoint = endpoint
        self._wanted = settings.parents
        self._roots = roots
        self._backoff = backoff
        self._candidates: deque[Hashable] = deque(roots)
        self._last_candidates: deque[Hashable] = deque()
        self._asked: set[Hashable] = set()
        """In this pass."""
        self._trying: dict[Hashable, float] = {}
        """Until when each answers."""
        self._found: set[Hashable] = set()
        self._try_at: float | None = 0.0 if roots else None

    @property
    def is_complete(self) -> bool:
        return len(self._found) >= self._wanted

    def joined(self, peer: Hashable, candidates: Iterable[Hashable]) -> None:
        """Note a new parent, and its children."""
        self._trying.pop(peer, None)
        self._found.add(peer)
        self._backoff.report_progress()
        self._add_candidates(self._last_candidates, candidates)

    def refused(self, peer: Hashable, candidates: Iterable[Hashable], now: float) -> None:
        """Note that a node has no room, and that these may have some."""
        self._add_candidates(self._candidates, candidates)
        self.failed(peer, now)

    def _add_candidates(self, queue: deque[Hashable], candidates: Iterable[Hashable]) -> None:
        known = {*self._asked, *self._candidates, *self._last_candidates}
        for each in candidates:
            if each not in known and len(known) < _MOST_CANDIDATES:
                queue.append(each)
                known.add(each)

    def failed(self, peer: Hashable, now: float) -> None:
        """Note that a node is no parent, or no longer."""
        if peer in self._found:
            self._found.discard(peer)
            # A new pass: earlier refusals may not count any more.
            self._begin_pass()
        self._trying.pop(peer, None)
        if self._try_at is not None:
            self._try_at = min(self._try_at, now) if self._candidates else self._try_at
            if not self._trying:
                self._end_pass(now)

    def _begin_pass(self) -> None:
        self._asked.clear()
        self._candidates = deque(self._roots)

    def _end_pass(self, now: float) -> None:
        if not self._candidates:
            self._candidates, self._last_candidates = self._last_candidates, self._candidates
        if not self._candidates and not self.is_complete:
            self.has_ended_pass = True
            self._begin_pass()
            self._try_at = now + self._backoff.next_wait(now)

    def stop(self) -> None:
        self._try_at = None

    def next_timeout(self) -> float | None:
        if self._try_at is None or self.is_complete:
            return None
        return min([*self._trying.values(), self._try_at])

    def handle_timeout(self, now: float) -> None:
        if self._try_at is None or self.is_complete:
            return
        for peer in [peer for peer, until in self._trying.items() if now >= until]:
            del self._trying[peer]
            connection = self._endpoint.find_dialled(peer)
            if connection is not None and peer not in self._found:
                self._endpoint.close(connection, "no answer", now)
        if now < self._try_at:
            return
        while self._candidates and len(self._found) + len(self._trying) < self._wanted:
            peer = self._candidates.popleft()
            self._asked.add(peer)
            if peer not in self._found and peer not in self._trying:
                self._trying[peer] = now + _ANSWER_SECONDS
                self._endpoint.dial(peer, now)
        self._try_at = now + _ANSWER_SECONDS
        if not self._trying:
            self._end_pass(now)
