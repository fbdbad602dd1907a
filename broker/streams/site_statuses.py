"""Notices about the sites of one stack instance, and the present status of each site."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from broker.event.site_notice import SiteNotice, SiteStatus
from broker.event.stream import StreamPattern
from broker.wire.site_notice import check_notice

STATES: Final = frozenset({"connected", "suspected", "disconnected"})
#: Present statuses of an instance; the oldest go.
MOST_SITES: Final = 1_000

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
        if self._is_over or not isinstance(notice, SiteStatus):
            return
        self._present.pop(notice.site, None)
        self._present[notice.site] = notice
        if len(self._present) > MOST_SITES:
            del self._present[next(iter(self._present))]

    def close(self) -> None:
        """Forget all statuses: the instance has stopped."""
        self._is_over = True
        self._present.clear()

    def find(self, pattern: StreamPattern | None) -> list[SiteStatus]:
        """Return the present statuses, if the streams of a subscription overlap those of the
        instance."""
        if pattern is None or any(map(pattern.overlaps, self._patterns)):
            return list(self._present.values())
        return []
