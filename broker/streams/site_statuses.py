"""Notices about the sites of one stack instance, and the present ones about each site."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, TypeVar

from broker.event.site_coverage import CoverageTable
from broker.event.site_notice import SiteCoverage, SiteNotice, SiteStatus
from broker.event.stream import StreamPattern
from broker.wire.site_notice import check_notice

STATES: Final = frozenset({"connected", "suspected", "disconnected"})
#: Present statuses of an instance, and tables of coverage; the oldest go.
MOST_SITES: Final = 100

T = TypeVar("T")

#: Delivers a notice to the subscriptions of streams, behind the events passed before. The function
#: is called when they have been delivered.
PassNotice: TypeAlias = Callable[
    [SiteNotice, Sequence[StreamPattern], Callable[[], object]], object
]


class SiteStatuses:
    def __init__(
        self, stack: str, patterns: Sequence[StreamPattern], pass_notice: PassNotice
    ) -> None:
        self._stack = stack
        self._patterns = patterns
        self._pass_notice = pass_notice
        self._present: dict[str, SiteStatus] = {}
        self._coverage: dict[str, CoverageTable] = {}
        self._is_over = False

    def notify(self, notice: SiteNotice) -> None:
        """Raises ValueError or `ProtocolError` for a notice that is not valid."""
        check_notice(notice)
        if notice.stack != self._stack:
            raise ValueError(f"a notice of {self._stack} names the stack {notice.stack}")
        if isinstance(notice, SiteStatus) and notice.state not in STATES:
            raise ValueError(f"{notice.state} is no state of a site")
        self._pass_notice(notice, self._patterns, lambda: self._store(notice))

    def _store(self, notice: SiteNotice) -> None:
        if self._is_over:
            return
        if isinstance(notice, SiteStatus):
            _store(self._present, notice.site, notice)
        elif isinstance(notice, SiteCoverage):
            table = self._coverage.get(notice.site) or CoverageTable()
            for row in notice.covered:
                table.add(row)
            _store(self._coverage, notice.site, table)

    def close(self) -> None:
        """Forget all notices: the instance has stopped."""
        self._is_over = True
        self._present.clear()
        self._coverage.clear()

    def find(self, pattern: StreamPattern | None) -> list[SiteNotice]:
        """Return the present notices, if the streams of a subscription overlap those of the
        instance."""
        if pattern is not None and not any(map(pattern.overlaps, self._patterns)):
            return []
        tables = self._coverage.items()
        coverage = [SiteCoverage(self._stack, site, table.rows) for site, table in tables]
        return [*self._present.values(), *coverage]


def _store(values: dict[str, T], site: str, value: T) -> None:
    values.pop(site, None)
    values[site] = value
    if len(values) > MOST_SITES:
        del values[next(iter(values))]
