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
MOMENT: Final = 1.0
#: Origins that are remembered, and types of each; beyond that they are looked up again.
_MOST_ORIGINS: Final = 10_000
_MOST_TYPES: Final = 1_000
_NONE: Final[frozenset[tuple[str, str]]] = frozenset()


@attrs.define(eq=False)
class _Wait:
    origin: str
    home: Address
    missing: set[tuple[str, str]]
    go_on: Callable[[], object]


class AwaitedAnnouncements:
    """Knows which types of origins are announced, and calls back those that wait for others."""

    def __init__(
        self, clock: IClock, is_open: Callable[[DtdReference, str, Address], bool]
    ) -> None:
        """`is_open` says whether the origin of a log at a node may use another text than the one
        that is here."""
        self._clock = clock
        self._is_open = is_open
        self._known: dict[str, set[tuple[str, str]]] = {}
        """By origin the types, by name and version, of which nothing is to be waited for."""
        self._waits: list[_Wait] = []
        self.given_up = 0
        """Types of origins that were not announced in time."""

    def wait(
        self,
        origin: str,
        home: Address,
        named: Set[tuple[str, str]],
        go_on: Callable[[], object],
    ) -> bool:
        """Whether `go_on` is called when types of an origin, by name and version, are announced, or
        after a moment."""
        if named <= self._known.get(origin, _NONE):
            return False
        wait = _Wait(origin, home, set(named), go_on)
        if self._is_over(wait):
            return False
        self._waits.append(wait)
        self._clock.callLater(MOMENT, self._give_up, wait)
        return True

    def announced(self) -> None:
        """Tables of other nodes have changed."""
        for wait in [each for each in self._waits if self._is_over(each)]:
            self._waits.remove(wait)
            wait.go_on()

    def _is_over(self, wait: _Wait) -> bool:
        known = self._known.get(wait.origin, _NONE)
        found = {each for each in wait.missing if each in known or self._is_settled(wait, each)}
        self._remember(wait.origin, found)
        wait.missing -= found
        return not wait.missing

    def _is_settled(self, wait: _Wait, named: tuple[str, str]) -> bool:
        with contextlib.suppress(BadName):
            return not self._is_open(DtdReference(*named), wait.origin, wait.home)
        # What a refused event is said to be is no type.
        return True

    def _remember(self, origin: str, named: Set[tuple[str, str]]) -> None:
        if len(self._known) >= _MOST_ORIGINS:
            self._known.clear()
        of_origin = self._known.setdefault(origin, set())
        if len(of_origin) >= _MOST_TYPES:
            of_origin.clear()
        of_origin |= named

    def _give_up(self, wait: _Wait) -> None:
        if wait in self._waits:
            self._waits.remove(wait)
            self.given_up += len(wait.missing)
            self._remember(wait.origin, wait.missing)
            wait.go_on()
