"""Delivery of own chat messages, by site."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import attrs

from broker.cli.chat_room.transcript import MOST_LINES, ChatLine, Transcript
from broker.event.event_id import EventId
from broker.event.site_coverage import MOST_SITES, Arrival, CoverageTable
from broker.event.site_notice import SiteCoverage, SiteStatus


@attrs.frozen
class Arrivals:
    """Sites by the state of one message there, each sorted."""

    delivered: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    expected: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    """The message is older than what these sites know."""


@attrs.frozen
class SettledLine:
    """An own message that no site waits for any more."""

    line: ChatLine
    arrivals: Arrivals


class OwnLines:
    """Follows the newest `MOST_LINES` own lines."""

    def __init__(
        self,
        client_id: str,
        transcript: Transcript,
        statuses: Mapping[tuple[str, str], SiteStatus],
    ) -> None:
        """`statuses` are those of the other sites, by stack and site."""
        self._client_id = client_id
        self._transcript = transcript
        self._statuses = statuses
        self._tables: dict[tuple[str, str], CoverageTable] = {}
        """By stack and site, the first `MOST_SITES`. The node's own site has no status: it has all
        lines."""
        self._unsettled: dict[EventId, Arrivals] = {}
        """Lines that may change, with what was told last."""

    def add_line(self, line: ChatLine) -> list[SettledLine]:
        if not self._is_own(line):
            return []
        self._unsettled[line.event_id] = Arrivals()
        if len(self._unsettled) > MOST_LINES:
            del self._unsettled[next(iter(self._unsettled))]
        return list(self._settle([line.event_id]))

    def add_coverage(self, notice: SiteCoverage) -> None:
        key = notice.stack, notice.site
        if key not in self._tables and len(self._tables) >= MOST_SITES:
            return
        table = self._tables.setdefault(key, CoverageTable())
        for row in notice.covered:
            table.add(row)

    def settle(self) -> list[SettledLine]:
        """Return the lines that are settled now, or in another way than before."""
        return list(self._settle(list(self._unsettled)))

    def arrivals_of(self, line: ChatLine) -> Arrivals | None:
        """Return the sites of an own message; None for others, and if no site tells it."""
        order = line.order
        if order is None or not self._is_own(line):
            return None
        found: dict[Arrival, list[str]] = {each: [] for each in Arrival}
        for stack, site in sorted(self._statuses.keys() | self._tables.keys()):
            status = self._statuses.get((stack, site))
            if stack != order.stack or (status is not None and status.reason == "removed"):
                continue
            table = self._tables.get((stack, site), _NOTHING)
            state = Arrival.DELIVERED if status is None else table.arrival_of(*order.id)
            found[state].append(site)
        if not any(stack == order.stack for stack, _ in self._tables):
            # The node does not tell it.
            return None
        return Arrivals(
            *(tuple(found[each]) for each in (Arrival.DELIVERED, Arrival.MISSING)),
            *(tuple(found[each]) for each in (Arrival.EXPECTED, Arrival.UNKNOWN)),
        )

    def _is_own(self, line: ChatLine) -> bool:
        is_text = line.message.presence is None
        return is_text and line.order is not None and line.event_id.client_id == self._client_id

    def _settle(self, ids: Iterable[EventId]) -> Iterator[SettledLine]:
        for id in ids:
            line = self._transcript.find(id)
            if line is None:
                del self._unsettled[id]
                continue
            arrivals = self.arrivals_of(line)
            if arrivals is None or arrivals.expected or arrivals.unknown:
                continue
            if arrivals != self._unsettled[id]:
                self._unsettled[id] = arrivals
                yield SettledLine(line, arrivals)
            if not arrivals.missing:
                # It can not change any more.
                del self._unsettled[id]


_NOTHING: Final = CoverageTable()
