"""Matches the events of a log page by the rules of live delivery.

An event refused by its origin's DTD, or with an unknown DTD, is a placeholder, which the reader of
the page reports as a gap.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeAlias

import attrs
from twisted.internet.defer import Deferred

from broker.errors import Overloaded
from broker.event.envelope import Liveness
from broker.event.place import Mark
from broker.event.placeholder import make_placeholder, placeholder_code
from broker.event.stream import StreamPattern
from broker.ingest.late_validation import UNKNOWN_TYPE, EventRun, LateValidator, matches_stream
from broker.log.logged_event import LoggedEvent
from broker.matching.contract import DtdNeeded, TypeMissing
from broker.matching.query.query import Query
from broker.transport.clock import IClock

#: Seconds that a page for another node waits for a DTD. That node waits 15 s.
REMOTE_DTD_WAIT: Final = 4.0

Select: TypeAlias = Callable[[str, int, EventRun, Liveness], Coroutine[Any, Any, list[bool]]]


@attrs.frozen
class PageQuery:
    pattern: StreamPattern
    query: Query
    matcher_number: int
    waits_for_dtds: bool
    """True if a missing DTD is awaited as long as in live delivery."""
    holder: str = ""
    """Under this name its turns count."""


class PageMatcher:
    def __init__(self, select: Select, late_judgement: LateValidator, clock: IClock) -> None:
        self._select = select
        self._late_judgement = late_judgement
        self._clock = clock

    async def select_events(
        self, reader: PageQuery, events: list[LoggedEvent]
    ) -> list[LoggedEvent]:
        """Return the matching events, and placeholders for invalid events that may match.

        Raises `Overloaded` if a DTD is missing and the query does not wait for it.
        """
        matched: list[LoggedEvent] = []
        for run in self._late_judgement.split_runs(events):
            await self._match_run(reader, run, matched)
        return matched

    async def _match_run(
        self, reader: PageQuery, run: EventRun, matched: list[LoggedEvent]
    ) -> None:
        rest = run.events
        while rest:
            current = attrs.evolve(run, events=rest)
            try:
                if (
                    current.needs_validation
                    and (code := self._late_judgement.rejection_code(current)) is not None
                ):
                    _add_placeholder(reader, rest[0], code, matched)
                    return
                selected = await self._select_run(reader, current)
            except DtdNeeded as needed:
                index = self._late_judgement.find_first_of_type(current, needed.missing)
                before = attrs.evolve(current, events=rest[:index])
                await self._match_run(reader, before, matched)
                rest = rest[index:]
                if not await self._await_dtd(
                    reader, attrs.evolve(current, events=rest), needed.missing
                ):
                    if self._may_match(reader, run, rest, needed.missing):
                        _add_placeholder(reader, rest[0], UNKNOWN_TYPE, matched)
                    rest = rest[1:]
            else:
                matched += [
                    event for event, is_selected in zip(rest, selected, strict=False) if is_selected
                ]
                rest = rest[len(selected) :]

    async def _select_run(self, reader: PageQuery, run: EventRun) -> list[bool]:
        return await self._select(reader.holder, reader.matcher_number, run, Liveness.RECOVERY)

    def _may_match(
        self, reader: PageQuery, run: EventRun, rest: list[LoggedEvent], needed: TypeMissing
    ) -> bool:
        first = attrs.evolve(run, events=rest)
        return self._late_judgement.may_match(reader, first, needed, Liveness.RECOVERY)

    async def _await_dtd(self, reader: PageQuery, run: EventRun, needed: TypeMissing) -> bool:
        """Await the DTD if the first event may match. Returns whether it is here."""
        if not self._may_match(reader, run, run.events, needed):
            return False
        settled: Deferred[bool | None] = Deferred()

        def settle(found: bool | None) -> None:
            if not settled.called:
                settled.callback(found)

        self._late_judgement.call_when_settled(needed, settle)
        if not reader.waits_for_dtds and not settled.called:
            self._clock.callLater(REMOTE_DTD_WAIT, settle, None)
        found = await settled
        if found is None:
            raise Overloaded(f"the DTD of {needed.reference} is being fetched")
        return found


def _add_placeholder(
    reader: PageQuery, event: LoggedEvent, code: str, matched: list[LoggedEvent]
) -> None:
    if matches_stream(reader, event):
        matched.append(attrs.evolve(event, document=make_placeholder(code, event.document)))


def drop_placeholders(
    events: Sequence[LoggedEvent],
) -> tuple[list[LoggedEvent], dict[str, Mark]]:
    """Return the events of a page for a node that does not support placeholders.

    An origin's events end before its first placeholder, at the place in the second result.
    """
    remaining: list[LoggedEvent] = []
    ends: dict[str, Mark] = {}
    for event in events:
        if event.origin in ends:
            continue
        if placeholder_code(event.document) is None:
            remaining.append(event)
        else:
            epoch, offset = event.mark
            ends[event.origin] = (epoch, offset - 1)
    return remaining, ends
