"""Delay events until their origin has announced the DTD text of their type.

Tables pass through leaders, so an event may arrive before the announcement. Events of a new type
wait once for each origin. Nodes of earlier versions announce nothing: then the text here counts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Set
from typing import Final

import attrs

from broker.cluster.address import Address
from broker.dtd.reference import DtdReference
from broker.errors import BadName
from broker.transport.clock import IClock

WAIT_SECONDS: Final = 1.0
#: Beyond them the cache is cleared.
_MAX_ORIGINS: Final = 10_000
_MAX_TYPES: Final = 1_000
_NONE: Final[frozenset[tuple[str, str]]] = frozenset()


@attrs.define(eq=False)
class _Wait:
    origin: str
    origin_node: Address
    missing: set[tuple[str, str]]
    call_back: Callable[[], object]


class AwaitedAnnouncements:
    def __init__(
        self, clock: IClock, may_differ: Callable[[DtdReference, str, Address], bool]
    ) -> None:
        """`may_differ` returns True if an origin may use another text than the one here."""
        self._clock = clock
        self._may_differ = may_differ
        self._known: dict[str, set[tuple[str, str]]] = {}
        """Types (name, version) that need no wait."""
        self._waits: list[_Wait] = []
        self.given_up = 0

    def wait_for(
        self,
        origin: str,
        origin_node: Address,
        types: Set[tuple[str, str]],
        call_back: Callable[[], object],
    ) -> bool:
        """Return True if `call_back` will be called: when all are announced, or after
        `WAIT_SECONDS`."""
        if types <= self._known.get(origin, _NONE):
            return False
        wait = _Wait(origin, origin_node, set(types), call_back)
        if self._is_complete(wait):
            return False
        self._waits.append(wait)
        self._clock.callLater(WAIT_SECONDS, self._give_up, wait)
        return True

    def recheck(self) -> None:
        """Call back complete waits, after tables of other nodes have changed."""
        for wait in [each for each in self._waits if self._is_complete(each)]:
            self._waits.remove(wait)
            wait.call_back()

    def _is_complete(self, wait: _Wait) -> bool:
        known = self._known.get(wait.origin, _NONE)
        found = {each for each in wait.missing if each in known or self._is_settled(wait, each)}
        self._record_settled(wait.origin, found)
        wait.missing -= found
        return not wait.missing

    def _is_settled(self, wait: _Wait, types: tuple[str, str]) -> bool:
        with contextlib.suppress(BadName):
            return not self._may_differ(DtdReference(*types), wait.origin, wait.origin_node)
        # The name in a refused event may be no type.
        return True

    def _record_settled(self, origin: str, types: Set[tuple[str, str]]) -> None:
        if len(self._known) >= _MAX_ORIGINS:
            self._known.clear()
        of_origin = self._known.setdefault(origin, set())
        if len(of_origin) >= _MAX_TYPES:
            of_origin.clear()
        of_origin |= types

    def _give_up(self, wait: _Wait) -> None:
        if wait in self._waits:
            self._waits.remove(wait)
            self.given_up += len(wait.missing)
            self._record_settled(wait.origin, wait.missing)
            wait.call_back()
