"""Slots for fetches of DTDs from other nodes, archives and pointers (T25)."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from typing import Final

from twisted.internet.defer import Deferred, succeed

from broker.errors import Overloaded
from broker.limit_registry import LimitRegistry

#: Fetches at a time, of all owners and of one: an account or another node.
MAX_FETCHES: Final = 64
MAX_FETCHES_OF_OWNER: Final = 4
#: Of one owner; a further fetch fails with `Overloaded`, and its events are sent again later.
MAX_WAITING_OF_OWNER: Final = 256


class FetchSlots:
    """Bounds the fetches that run at a time; waiting owners have turns."""

    def __init__(self, limit_registry: LimitRegistry | None = None) -> None:
        self._running: Counter[str] = Counter()
        self._total = 0
        self._waiting: OrderedDict[str, deque[Deferred[None]]] = OrderedDict()
        registry = limit_registry or LimitRegistry()
        self._total_limit = registry.add(
            "dtd-fetches", bound=lambda: MAX_FETCHES, used=lambda: self._total
        )
        self._owner_limit = registry.add(
            "dtd-fetches-of-account",
            per="account",
            bound=lambda: MAX_FETCHES_OF_OWNER,
            used=lambda: max(self._running.values(), default=0),
        )
        self._waiting_limit = registry.add(
            "dtd-fetches-waiting",
            per="account",
            bound=lambda: MAX_WAITING_OF_OWNER,
            used=lambda: max(map(len, self._waiting.values()), default=0),
        )

    def acquire(self, owner: str) -> Deferred[None]:
        """Fire when the owner has a slot; call `release` then. Raises `Overloaded`."""
        if self._has_slot(owner):
            self._take_slot(owner)
            return succeed(None)
        of_owner = self._running[owner] >= MAX_FETCHES_OF_OWNER
        (self._owner_limit if of_owner else self._total_limit).count_reached()
        queue = self._waiting.setdefault(owner, deque())
        if len(queue) >= MAX_WAITING_OF_OWNER:
            self._waiting_limit.count_reached()
            raise Overloaded(f"{len(queue)} fetches of DTDs wait already: try again later")
        queue.append(Deferred())
        return queue[-1]

    def release(self, owner: str) -> None:
        self._total -= 1
        self._running[owner] -= 1
        if not self._running[owner]:
            del self._running[owner]
        following = next((each for each in self._waiting if self._has_slot(each)), None)
        if following is None:
            return
        queue = self._waiting.pop(following)
        found = queue.popleft()
        if queue:
            # Its next turn comes after those of the others.
            self._waiting[following] = queue
        self._take_slot(following)
        found.callback(None)

    def _has_slot(self, owner: str) -> bool:
        return self._total < MAX_FETCHES and self._running[owner] < MAX_FETCHES_OF_OWNER

    def _take_slot(self, owner: str) -> None:
        self._total += 1
        self._running[owner] += 1
