"""Let events wait until their origin has announced which DTD text it uses for their type.

An event may come before the table that announces its type, since tables pass leaders. Events of the
type then wait for a moment, once for each origin and type. Nodes of earlier versions announce
nothing: their events are judged by the text that this node has.
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

#: Seconds that events wait.
WAIT_SECONDS: Final = 1.0
#: Origins that are remembered, and types of each; beyond that they are looked up again.
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
    """Knows which types of origins are announced, and calls back those that wait for others."""

    def __init__(
        self, clock: IClock, may_differ: Callable[[DtdReference, str, Address], bool]
    ) -> None:
        """`is_open` says whether the origin of a log at a node may use another text than the one
        that is here."""
        self._clock = clock
        self._may_differ = may_differ
        self._known: dict[str, set[tuple[str, str]]] = {}
        """By origin the types, by name and version, of which nothing is to be waited for."""
        self._waits: list[_Wait] = []
        self.given_up = 0
        """Types of origins that were not announced in time."""

    def wait_for(
        self,
        origin: str,
        origin_node: Address,
        types: Set[tuple[str, str]],
        call_back: Callable[[], object],
    ) -> bool:
        """Whether `go_on` is called when types of an origin, by name and version, are announced, or
        after a moment."""
        if types <= self._known.get(origin, _NONE):
            return False
        wait = _Wait(origin, origin_node, set(types), call_back)
        if self._is_complete(wait):
            return False
        self._waits.append(wait)
        self._clock.callLater(WAIT_SECONDS, self._give_up, wait)
        return True

    def recheck(self) -> None:
        """Tables of other nodes have changed."""
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
        # What a refused event is said to be is no type.
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
