"""Merges pages of several logs with events of one origin by their places."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from types import AsyncGeneratorType
from typing import TypeAlias

from broker.event.place import Mark
from broker.log.logged_event import LoggedEvent

#: Pages of one log, in order.
EventPages: TypeAlias = AsyncGenerator[Sequence[LoggedEvent], None]


def has_places_between(mark: Mark, other: Mark) -> bool:
    """An epoch may have begun without events."""
    return mark < other and mark[1] < other[1]


async def close_pages(pages: EventPages) -> None:
    """Close the reader, unless the coroutine that awaits its next page is dropped.

    Python before 3.13 counts such a reader as running: it can not be closed, and ends by itself.
    """
    if isinstance(pages, AsyncGeneratorType) and pages.ag_running:
        return
    await pages.aclose()


class PageMerge:
    """Holds one page of each log."""

    def __init__(self, logs: Sequence[EventPages]) -> None:
        self._logs: dict[EventPages, list[LoggedEvent]] = {each: [] for each in logs}

    async def next_event(self, after: Mark) -> LoggedEvent | None:
        """None at the end."""
        for pages in list(self._logs):
            await self._advance(pages, after)
        heads = [events[0] for events in self._logs.values()]
        return min(heads, key=lambda each: each.mark, default=None)

    async def _advance(self, pages: EventPages, after: Mark) -> None:
        events = self._logs[pages]
        while True:
            # A restored origin uses offsets again, in a later epoch.
            while events and events[0].mark <= after:
                del events[0]
            if events:
                return
            try:
                events += await anext(pages)
            except StopAsyncIteration:
                del self._logs[pages]
                return

    async def close(self) -> None:
        for pages in self._logs:
            await close_pages(pages)
