"""Reads pages of this node's log for one query, for recoveries here and at other nodes.

The log is complete for own events that retention has left, and for a durable subscription from
where that became active here. An event that was published to two nodes has two places, and a log
holds one. So a log with only a part of another origin counts for own events alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import attrs

from broker.delivery.recovery_contract import MarkRange
from broker.event.flow import origin_of
from broker.event.place import Mark
from broker.event.stream import StreamPattern
from broker.log.chunk_table import EVENTS
from broker.log.damage import DamageFound
from broker.log.event_log import EventLog
from broker.log.logged_event import LoggedEvent
from broker.log.replica_table import REPLICA_TABLE
from broker.matching.contract import IMatcher
from broker.matching.query.query import Query
from broker.recovery.commit_wait import wait_for_commit
from broker.recovery.page_matcher import PageMatcher, PageQuery, drop_placeholders
from broker.recovery.page_range import (
    marks_at_end,
    marks_before_damage,
    marks_of_events,
    read_start_marks,
    split_before_missing,
)
from broker.subscriptions.durable_subscriptions import DurableSubscriptions
from broker.subscriptions.start_position import first_serial_after, rewind_lost_branches

#: A rare query must not need a question to another node for every few events.
PAGE_BYTES = 256 << 10
READ_EVENTS = 512
MAX_READS = 32
_BEFORE_FIRST: Mark = (0, 0)


@attrs.frozen
class LogPageRequest:
    pattern: StreamPattern
    query: Query
    clearance: int
    ranges: Mapping[str, MarkRange]
    serial: int = 0
    """0: the start of the ranges."""
    client_id: str = ""
    name: str = ""
    """A durable subscription for which the log is complete."""
    holder: str = ""
    """Under this name the time of the query counts."""
    allow_partial: bool = False
    from_ms: int = 0
    until_ms: int = 0
    as_logged: bool = False
    """True if events are returned unmatched."""
    placeholders: bool = True
    """True if the reader supports placeholders (`broker.event.placeholder`)."""


@attrs.frozen
class Page:
    """Matching events, in the order of the log."""

    events: list[LoggedEvent]
    reached: Mapping[str, Mark]
    """By complete origin, the place up to which it was read."""
    next_serial: int
    """Serial to read the rest of the ranges from; 0: this is the last page."""
    begins: Mapping[str, Mark] = attrs.field(factory=dict)
    """By incomplete origin, the mark after which the log is complete."""
    origin: str = ""
    is_proven: bool = True
    """False if a node on the way may have made the page: it shows its events, and not that there
    are no others."""


class LogPageReader:
    def __init__(
        self,
        log: EventLog,
        matcher: IMatcher,
        page_matcher: PageMatcher,
        durables: DurableSubscriptions,
    ) -> None:
        self._log = log
        self._matcher = matcher
        self._page_matcher = page_matcher
        self._durables = durables

    @property
    def origin(self) -> str:
        return self._log.origin

    def sign_own(self, events: Iterable[LoggedEvent]) -> None:
        self._log.sign_own(events)

    def has_log_or_replica(self, origin: str) -> bool:
        return self._log.flows.is_own(origin) or origin_of(origin) in self._log.replica_spans

    def complete_ranges(self, request: LogPageRequest) -> dict[str, MarkRange]:
        if request.allow_partial:
            return dict(request.ranges)
        begins = self._complete_from(request)
        found = {
            origin: (after, upto)
            for origin, (after, upto) in request.ranges.items()
            if origin in begins and after[1] >= begins[origin][1]
        }
        covered = self._log.coverage.marks
        is_incomplete = any(
            covered.get(origin, _BEFORE_FIRST) > after
            for origin, (after, _) in request.ranges.items()
            if origin not in found
        )
        own_ranges: dict[str, MarkRange] = {}
        for own in [origin for origin in found if self._log.flows.is_own(origin)]:
            after, upto = found.pop(own)
            fork = None if upto is None else self._log.find_fork(upto)
            # Own places on a lost branch are not here.
            if fork is None or after < fork:
                own_ranges[own] = (after, upto if fork is None else fork)
        return own_ranges if is_incomplete else {**found, **own_ranges}

    async def has_events(self, origin: str, after: Mark, upto: Mark) -> bool:
        try:
            events = await self._log.read_unsigned(origin, after, 1, 1)
        except DamageFound:
            return True
        return bool(events) and events[0].mark <= upto

    def _origins_on_lost_branches(self, ranges: Mapping[str, MarkRange]) -> set[str]:
        """Return other origins with a range that ends on a lost branch."""
        ends = {o: upto for o, (_, upto) in ranges.items() if upto is not None}
        for own in (self._log.origin, *self._log.flows.own):
            ends.pop(own, None)
        back = rewind_lost_branches(self._log, ends)
        return {origin for origin, upto in ends.items() if back[origin] != upto}

    def _complete_from(self, request: LogPageRequest) -> dict[str, Mark]:
        flows = self._log.flows
        complete = dict.fromkeys((self._log.origin, *flows.own), _BEFORE_FIRST)
        durable = self._durables.get(request.client_id, request.name)
        if durable is not None and durable.active_from is not None:
            if durable.pattern == request.pattern.text and durable.has_query(request.query):
                complete = {**flows.complete_marks(durable.active_from.marks), **complete}
        since = _max_marks(self._log.begins_after, self._marks_after_loss(request, {}))
        return {
            origin: max(
                mark,
                since.get(origin, _BEFORE_FIRST),
                self._damage_end(EVENTS, request, origin),
                key=_offset,
            )
            for origin, mark in complete.items()
        }

    def _next_loss(self, request: LogPageRequest, after: Mark) -> tuple[Mark, Mark] | None:
        """Return the next loss of own events behind `after`, as (after, upto].

        It lies where the events were lost, or, in a first page behind that, where it was recorded.
        """
        for loss in self._log.history_chain.losses:
            if loss.is_before(after):
                return loss.branch, loss.upto
            begun = request.ranges[self._log.origin][0]
            recorded = not request.serial and begun[0] >= loss.after[0]
            if loss.count and after < loss.last and recorded:
                return loss.after, loss.last
        return None

    def _marks_after_loss(
        self, request: LogPageRequest, reached: Mapping[str, Mark]
    ) -> dict[str, Mark]:
        """Return where this log continues if the next own events are lost."""
        own = self._log.origin
        if own not in request.ranges:
            return {}
        after = reached.get(own, request.ranges[own][0])
        loss = self._next_loss(request, after)
        return {own: loss[1]} if loss and loss[0] <= after else {}

    def _ranges_before_loss(
        self, request: LogPageRequest, ranges: Mapping[str, MarkRange]
    ) -> dict[str, MarkRange]:
        own = self._log.origin
        loss = self._next_loss(request, ranges[own][0]) if own in ranges else None
        if loss is None:
            return dict(ranges)
        after, upto = ranges[own]
        if loss[0] <= after:
            return {origin: each for origin, each in ranges.items() if origin != own}
        return {**ranges, own: (after, loss[0] if upto is None else min(upto, loss[0]))}

    def _damage_end(self, table: str, request: LogPageRequest, origin: str) -> Mark:
        after, _ = request.ranges.get(origin, (_BEFORE_FIRST, None))
        return self._log.repairs.end_of_loss(table, origin, after) or _BEFORE_FIRST

    async def read_page(self, request: LogPageRequest, *, wait: bool = False) -> Page:
        """Return the next page. With `wait` it waits for missing DTDs.

        Raises `LogDamaged` during a repair, `Overloaded` if a DTD is missing, and `BrokerError` if
        the log is not readable or the query takes too long.
        """
        await wait_for_commit(self._log, request.ranges)
        with self._subscribed_query(request, patient=wait) as reader:
            ranges = self._ranges_before_loss(request, self._readable_ranges(request))
            if not ranges:
                return self._with_begins(
                    request, await self._read_replica_page(request, reader, wait)
                )
            page = await self._read_log_page(request, ranges, reader, wait)
        # Retention may have removed events meanwhile.
        left = self.complete_ranges(request)
        if ranges.keys() == left.keys():
            return self._with_begins(request, page)
        events = [event for event in page.events if event.origin in left]
        reached = {origin: mark for origin, mark in page.reached.items() if origin in left}
        return self._with_begins(request, attrs.evolve(page, events=events, reached=reached))

    def _readable_ranges(self, request: LogPageRequest) -> dict[str, MarkRange]:
        """Return the complete ranges that continue in this page or later.

        Later pages must not continue behind the damage or placeholder at which an earlier page
        ended.
        """
        ranges = self.complete_ranges(request)
        if not request.serial or (request.allow_partial and request.placeholders):
            return ranges
        first_after = self._log.first_after
        return {o: each for o, each in ranges.items() if first_after(o, each[0]) >= request.serial}

    def _with_begins(self, request: LogPageRequest, page: Page) -> Page:
        kept = {
            origin: max(span.after, self._damage_end(REPLICA_TABLE, request, origin))
            for log_origin, span in self._log.replica_spans.items()
            for origin in self._log.flows.of_origin(log_origin)
            if self._log.flows.since(origin) < span.after or origin == log_origin
        }
        begins = {
            origin: mark
            for origin, mark in {**kept, **self._complete_from(request)}.items()
            if origin in request.ranges and origin not in page.reached
        }
        begins.update(page.begins)
        begins.update(self._marks_after_loss(request, page.reached))
        return attrs.evolve(page, begins=begins)

    async def _read_log_page(
        self, request: LogPageRequest, ranges: dict[str, MarkRange], reader: PageQuery, wait: bool
    ) -> Page:
        log = self._log
        # Copies of withheld events come later than the events themselves.
        covered = {**log.coverage.marks, **log.flows.own_marks(log.coverage[log.origin])}
        last = log.bounds.last
        lost = self._origins_on_lost_branches(ranges)
        serial = request.serial or first_serial_after(log, read_start_marks(ranges, covered))
        found: list[LoggedEvent] = []
        passed: dict[str, Mark] = {}
        ended: dict[str, Mark] = {}
        size = 0
        for _ in range(MAX_READS):
            try:
                events = await log.read(serial, READ_EVENTS, PAGE_BYTES, wait=wait)
            except DamageFound as error:
                if log.repairs.is_given_up(error.damage):
                    passed.update(marks_before_damage(error.damage, ranges))
                    return Page(found, passed, error.damage.last + 1)
                if not found:
                    raise
                return Page(found, passed, serial)
            serial = events[-1].serial + 1 if events else last + 1
            events = log.flows.without_copies(events)
            requested = [event for event in events if _is_requested(event, ranges, request)]
            cleared = await self._select_events(request, reader, requested)
            passed.update(marks_of_events(events, ranges, lost))
            if not request.placeholders:
                cleared, ends = drop_placeholders(cleared)
                passed.update(ends)
                ended.update(ends)
                ranges = {origin: each for origin, each in ranges.items() if origin not in ends}
            found += cleared
            size += sum([event.size for event in cleared])
            if serial > last:
                whole = {origin: each for origin, each in ranges.items() if origin not in lost}
                return Page(found, {**passed, **marks_at_end(whole, covered), **ended}, 0)
            if size >= PAGE_BYTES:
                break
        return Page(found, passed, serial)

    async def _read_replica_page(
        self, request: LogPageRequest, reader: PageQuery, wait: bool
    ) -> Page:
        """Read a page of a replica (`acknowledge = "neighbour"`)."""
        for origin, (after, upto) in request.ranges.items():
            flows, log_origin = self._log.flows, origin_of(origin)
            span = self._log.replica_spans.get(log_origin)
            begun = max(after, flows.since(origin))
            if span is None or begun < span.after or after >= flows.limit(origin, span.upto):
                continue
            try:
                events = await self._log.read_replica(
                    log_origin, begun, READ_EVENTS, PAGE_BYTES, wait=wait
                )
            except DamageFound as error:
                if not self._log.repairs.is_given_up(error.damage):
                    raise
                break
            events, behind = split_before_missing(begun, events, upto)
            if upto is not None and self._origins_on_lost_branches({origin: (after, upto)}):
                # The events behind it are of another branch.
                events = [event for event in events if event.mark <= upto]
                if not events:
                    continue
            of_flow = flows.select_flow(events, origin)
            for event in of_flow:
                event.origin = origin
            requested = [
                event for event in of_flow if _is_requested(event, request.ranges, request)
            ]
            cleared = await self._select_events(request, reader, requested)
            span = self._log.replica_spans.get(log_origin)
            if span is None or begun < span.after:
                break
            end = flows.limit(origin, span.upto)
            if behind is not None:
                passed = {origin: events[-1].mark} if events else {}
                return Page(cleared, passed, 0, begins={origin: behind})
            reached = min(events[-1].mark, end) if events else end
            if upto is not None:
                reached = min(reached, upto)
            if not request.placeholders:
                cleared, ends = drop_placeholders(cleared)
                if ends:
                    return Page(cleared, ends, 0)
            more = reached < end and (upto is None or reached < upto)
            return Page(cleared, {origin: reached}, int(more))
        return Page([], {}, 0)

    async def select_events(
        self, request: LogPageRequest, events: Sequence[LoggedEvent]
    ) -> list[LoggedEvent]:
        """Return the events of any log that match and are cleared. Raises like `read_page`."""
        requested = [event for event in events if _is_requested(event, request.ranges, request)]
        with self._subscribed_query(request, patient=True) as reader:
            return await self._page_matcher.select_events(reader, requested)

    @contextmanager
    def _subscribed_query(self, request: LogPageRequest, *, patient: bool) -> Iterator[PageQuery]:
        number = self._matcher.subscribe(
            request.pattern, request.query, request.holder, request.clearance
        )
        try:
            yield PageQuery(request.pattern, request.query, number, patient, request.holder)
        finally:
            self._matcher.unsubscribe(number)

    async def _select_events(
        self, request: LogPageRequest, reader: PageQuery, events: list[LoggedEvent]
    ) -> list[LoggedEvent]:
        if request.as_logged:
            return events
        return await self._page_matcher.select_events(reader, events)


def _max_marks(one: Mapping[str, Mark], other: Mapping[str, Mark]) -> dict[str, Mark]:
    return {o: max(one.get(o, _BEFORE_FIRST), other.get(o, _BEFORE_FIRST)) for o in {*one, *other}}


def _offset(mark: Mark) -> int:
    return mark[1]


def _is_requested(
    event: LoggedEvent, ranges: Mapping[str, MarkRange], request: LogPageRequest
) -> bool:
    found = ranges.get(event.origin)
    if found is None or event.level > request.clearance:
        return False
    after, upto = found
    if event.mark <= after or (upto is not None and event.mark > upto):
        return False
    if event.arrival < request.from_ms:
        return False
    return not request.until_ms or event.arrival < request.until_ms
