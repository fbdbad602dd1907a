"""The time of a recovery's query counts for the account of its client."""

from __future__ import annotations

from typing import Any

import attrs
from twisted.internet.defer import Deferred

from broker.event.stream import StreamPattern
from broker.matching.query.query import Query
from tests.recovery.test_log_page_reader import EVENTS, WHOLE, Log, Matcher, ask, pages_of


class RecordingMatcher(Matcher):
    def __init__(self) -> None:
        super().__init__()
        self.subscribed: list[str] = []
        self.selected: list[str] = []

    def subscribe(
        self, pattern: StreamPattern, query: Query, holder: str = "", clearance: int = 2
    ) -> int:
        self.subscribed.append(holder)
        return super().subscribe(pattern, query)

    async def select(self, holder: str, *of: Any) -> list[bool]:
        self.selected.append(holder)
        return await super().select(holder, *of)


def test_pages_and_selected_events_count_for_the_holder() -> None:
    matcher = RecordingMatcher()
    pages, request = pages_of(Log(), matcher), attrs.evolve(WHOLE, holder="account a")
    ask(pages, request)
    Deferred.fromCoroutine(pages.select_events(request, EVENTS))
    assert matcher.subscribed == matcher.selected == ["account a"] * 2
