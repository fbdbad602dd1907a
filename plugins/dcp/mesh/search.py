"""The search for parents (DCP D58-D61, D66).

A pass begins at the roots and asks several nodes at once. A node that refuses names its children,
which are asked next. So parents are as near to the roots as there is room. The children of nodes
with a place are asked last: a mesh with fewer roots than parents ends in a node that all paths
share. Of the places that are offered within a short time, a selector chooses.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final

from broker.transport.backoff import Backoff
from plugins.dcp.connection import Connection
from plugins.dcp.endpoint import Endpoint
from plugins.dcp.mesh.selection import Candidate

#: Time for an answer to a join, in seconds.
_ANSWER_SECONDS: Final = 5.0
#: Time after the first offer in which other nodes may offer a better one.
_COMPARE_SECONDS: Final = 0.1
#: Nodes asked at once for each parent that is missing.
_ASKED_AT_ONCE: Final = 2
#: Nodes to ask in one pass.
_MOST_CANDIDATES: Final = 1_000


class ParentSearch:
    def __init__(
        self,
        endpoint: Endpoint,
        roots: Sequence[Hashable],
        backoff: Backoff,
        count_missing: Callable[[], int],
        choose: Callable[[Sequence[Candidate], float], Sequence[Candidate]],
        confirm: Callable[[Connection, Candidate, float], object],
    ) -> None:
        """Without roots it finds nothing: the node is one, or waits for `set_roots`.

        `count_missing` returns the number of parents that are missing. `choose` returns those of
        the offers whose places are taken. `confirm` makes the node behind a connection a parent.
        """
        self.has_ended_pass = False
        """True when all known nodes were asked once."""
        self.level_refusals = 0
        """Nodes of this pass that have room, but not a low level."""
        self.is_unanswered = False
        """True if no node has answered in the last pass."""
        self._has_answer = False
        """In this pass."""
        self._is_stopped = False
        self._endpoint = endpoint
        self._roots = roots
        self._backoff = backoff
        self._count_missing = count_missing
        self._choose = choose
        self._confirm = confirm
        self._candidates: deque[Hashable] = deque(roots)
        self._last_candidates: deque[Hashable] = deque()
        self._asked: set[Hashable] = set()
        """In this pass."""
        self._trying: dict[Hashable, float] = {}
        """Time at which each was asked."""
        self._offers: dict[Connection, Candidate] = {}
        self._decide_at: float | None = None
        self._try_at: float | None = 0.0 if roots else None

    # ------------------------------------------------------------------ answers

    def offered(
        self,
        connection: Connection,
        candidate: Candidate,
        children: Iterable[Hashable],
        now: float,
    ) -> None:
        """Note that a node offers a place, and its children."""
        self._note_answer()
        asked_at = self._trying.pop(connection.peer, now)
        self._add_candidates(self._last_candidates, children)
        name, level, diversity = candidate.name, candidate.level, candidate.diversity
        self._offers[connection] = Candidate(name, level, diversity, now - asked_at)
        if self._decide_at is None:
            self._decide_at = now + _COMPARE_SECONDS
        self._decide_if_complete(now)

    def refused(
        self, peer: Hashable, reason: str, children: Iterable[Hashable], now: float
    ) -> None:
        """Note that a node has no place, and that these may have some."""
        self._note_answer()
        self.level_refusals += reason == "level"
        self._add_candidates(self._candidates, children)
        self.failed(peer, now)

    def failed(self, peer: Hashable, now: float) -> None:
        """Note that a node is no parent, or no longer."""
        offers = {each: offer for each, offer in self._offers.items() if each.peer != peer}
        had_offered = len(offers) < len(self._offers)
        self._offers = offers
        was_asked = self._trying.pop(peer, None) is not None
        if self._try_at is None or not (was_asked or had_offered):
            return
        if self._offers:
            self._decide_if_complete(now)
        elif self._candidates:
            self._try_at = now
        elif not self._trying:
            self._end_pass(now)

    def _note_answer(self) -> None:
        self._has_answer, self.is_unanswered = True, False

    def set_roots(self, roots: Sequence[Hashable], now: float) -> None:
        """Begin the next passes at other nodes."""
        if list(roots) == list(self._roots):
            return
        self._roots = roots
        if not self._is_stopped:
            self._try_at = now
            self.begin_pass(now)

    def report_success(self) -> None:
        """Note that a parent selects events for this node: the next waits are short again."""
        self._backoff.report_progress()

    def begin_pass(self, now: float, *, waits: bool = False) -> None:
        """Ask again from the roots on: a parent has gone, or earlier refusals do not count. With
        `waits` not at once, and later each time until `report_success`."""
        self._asked.clear()
        self.has_ended_pass = False
        self.level_refusals = 0
        self._candidates = deque(self._roots)
        if self._try_at is not None:
            self._try_at = now + (self._backoff.next_wait(now) if waits else 0.0)

    def _add_candidates(self, queue: deque[Hashable], candidates: Iterable[Hashable]) -> None:
        known = {*self._asked, *self._candidates, *self._last_candidates}
        for each in candidates:
            if each not in known and len(known) < _MOST_CANDIDATES:
                queue.append(each)
                known.add(each)

    def _decide_if_complete(self, now: float) -> None:
        if not self._trying:
            self._decide(now)

    def _decide(self, now: float) -> None:
        """Choose among the offers, and give the other places back."""
        offers, self._offers, self._decide_at = self._offers, {}, None
        chosen = self._choose(list(offers.values()), now)
        for connection, candidate in offers.items():
            if any(candidate is each for each in chosen):
                self._confirm(connection, candidate, now)
            else:
                self._endpoint.close(connection, "not needed", now)
        if self._try_at is not None:
            self._try_at = now

    # ------------------------------------------------------------------ time

    def _end_pass(self, now: float) -> None:
        if self._last_candidates:
            self._candidates, self._last_candidates = self._last_candidates, self._candidates
            self._try_at = now
            return
        refusals = self.level_refusals
        self.is_unanswered = not self._has_answer
        self._has_answer = False
        self.begin_pass(now)
        self.has_ended_pass, self.level_refusals = True, refusals
        self._try_at = now + self._backoff.next_wait(now)

    def stop(self) -> None:
        self._is_stopped, self._try_at = True, None

    @property
    def is_searching(self) -> bool:
        return self._try_at is not None and self._count_missing() > 0

    @property
    def needs_higher_level(self) -> bool:
        """True if nodes with room have refused for the level, after all were asked."""
        return self.is_searching and self.has_ended_pass and self.level_refusals > 0

    def next_timeout(self) -> float | None:
        if self._decide_at is not None:
            return self._decide_at
        if self._try_at is None or not self.is_searching:
            return None
        return min([self._try_at, *(at + _ANSWER_SECONDS for at in self._trying.values())])

    def handle_timeout(self, now: float) -> None:
        if self._decide_at is not None and now >= self._decide_at:
            self._decide(now)
        if self._try_at is None or not self.is_searching:
            return
        for peer in [p for p, at in self._trying.items() if now >= at + _ANSWER_SECONDS]:
            connection = self._endpoint.find_dialled(peer)
            if connection is None:
                self.failed(peer, now)
            else:
                self._endpoint.close(connection, "no answer", now)
        if now >= self._try_at:
            self._ask(now)

    def _ask(self, now: float) -> None:
        missing = self._count_missing()
        open_questions = len(self._trying) + len(self._offers)
        while self._candidates and open_questions < _ASKED_AT_ONCE * missing:
            peer = self._candidates.popleft()
            self._asked.add(peer)
            if peer not in self._trying and self._endpoint.find_dialled(peer) is None:
                self._trying[peer] = now
                open_questions += 1
                self._endpoint.dial(peer, now)
        assert self._try_at is not None
        self._try_at = now + _ANSWER_SECONDS
        if not self._trying and not self._offers and not self._candidates:
            self._end_pass(now)
