"""Catch-up: subscriptions read the log at their own cursors until they reach its end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from itertools import groupby
from typing import Any, TypeAlias

import attrs
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from broker.delivery.commit_share import split_at_cut
from broker.delivery.delivery_sender import DeliverySender
from broker.delivery.feed import Feed, FeedState
from broker.delivery.gaps import find_retention_gaps, make_damage_gap
from broker.delivery.site_notices import SessionSiteNotices, events_before_notice
from broker.event.envelope import Liveness
from broker.event.place import Mark
from broker.ingest.late_validation import (
    UNKNOWN_TYPE,
    EventRun,
    LateValidator,
    make_plain_runs,
    matches_stream,
)
from broker.log.chunk import split_by_size
from broker.log.damage import Damage, DamageFound, Span
from broker.log.event_log import EventLog
from broker.log.history import BranchLoss
from broker.log.logged_event import LoggedEvent
from broker.matching.contract import DtdNeeded, TypeMissing
from broker.wire.event_batch import encode_events
from broker.wire.messages import Gap

PAGE_EVENTS = 256
PAGE_DELIVERIES = 2

_BEFORE_ALL: Mark = (0, 0)

#: Returns which of the first documents match, as many as fit into a time slice. Variants of their
#: DTDs may be passed.
Select: TypeAlias = Callable[..., Coroutine[Any, Any, list[bool]]]


class CatchUp:
    def __init__(
        self,
        feeds: Mapping[int, Feed],
        sender: DeliverySender,
        *,
        clearance: int,
        delivery_bytes: int,
        log: EventLog,
        select: Select,
        recover_trimmed: Callable[[Feed], bool],
        notices: SessionSiteNotices,
        on_failed: Callable[[Feed, Failure], None],
        on_wait: Callable[[], object] = lambda: None,
        late_validator: LateValidator | None = None,
    ) -> None:
        """`recover_trimmed` is called when retention has removed unread events; it returns True
        if a recovery feeds the subscription now. `on_wait`: a subscription waits for the next
        commit."""
        self._feeds = feeds
        self._sender = sender
        self._writer = sender.writer
        self._clearance = clearance
        self._delivery_bytes = delivery_bytes
        self._log = log
        self._select = select
        self._recover_trimmed = recover_trimmed
        self._notices = notices
        self._on_failed = on_failed
        self._on_wait = on_wait
        self._late_validator = late_validator
        self._pending_feeds: deque[Feed] = deque()
        self._is_reading = False

    def start_feed(self, feed: Feed) -> None:
        """Report events that retention removed before the cursor, and feed from there."""
        feed.fed_from = dict(feed.reported_marks)
        since = self._log.begins_after
        if find_retention_gaps(feed.number, feed.reported_marks, since) and (
            self._recover_trimmed(feed)
        ):
            return
        for gap in self._report_retention_gaps(feed):
            feed.outcomes.gone += gap.count
        self.continue_feed(feed)

    def continue_feed(self, feed: Feed) -> None:
        """Feed up to the log's end, or until the session is full."""
        if not feed.is_reading:
            feed.is_reading = True
            self._pending_feeds.append(feed)
        if not self._is_reading:
            self._is_reading = True
            Deferred.fromCoroutine(self._read_pages())

    async def _read_pages(self) -> None:
        """Read one page for each subscription in turn. Otherwise most would find the session full,
        and read the page again."""
        page_bytes = PAGE_DELIVERIES * self._delivery_bytes
        while self._pending_feeds:
            feed = self._pending_feeds[0]
            try:
                if self._can_read(feed):
                    events = await self._log.read(feed.cursor, PAGE_EVENTS, page_bytes, wait=False)
                    await self._feed_page(feed, events)
                    self._pending_feeds.rotate(-1)
                    continue
            except DamageFound as found:
                if self._skip_damage(feed, found.damage):
                    continue
                # Other subscriptions continue during the repair.
                self._pending_feeds.popleft()
                continue
            except Exception:
                self._fail_feed(Failure(), feed)
            self._pending_feeds.popleft()
            feed.is_reading = False
        self._is_reading = False

    def _skip_damage(self, feed: Feed, damage: Damage) -> bool:
        """Report irreparable damage as gaps and return True. Otherwise continue after the
        repair."""
        if not self._log.repairs.is_given_up(damage):
            repair = self._log.repairs.begin_repair(damage)
            repair.addCallbacks(
                lambda _: None, lambda failure: self._fail_feed(failure, feed)
            ).addBoth(lambda _: self._retry_feed(feed))
            return False
        if self._is_catching_up(feed):
            for span in self._spans_of_flows(damage):
                if feed.skip_marks.get(span.origin, _BEFORE_ALL) < span.upto:
                    feed.outcomes.gone += span.upto[1] - span.after[1]
                    reported = feed.reported_marks.get(span.origin, _BEFORE_ALL)
                    feed.reported_marks[span.origin] = max(span.upto, reported)
                    self._writer.send_message(make_damage_gap(feed.number, span, "damaged"))
            feed.cursor = max(feed.cursor, damage.last + 1)
        return True

    def _spans_of_flows(self, damage: Damage) -> list[Span]:
        """Own events of all flows share the chunks of the own origin."""
        own = [span for span in damage.spans if span.origin == self._log.origin]
        flows = [attrs.evolve(span, origin=flow) for span in own for flow in self._log.flows.own]
        return [*damage.spans, *flows]

    def _retry_feed(self, feed: Feed) -> None:
        feed.is_reading = False
        if self._is_catching_up(feed):
            self.continue_feed(feed)

    def _can_read(self, feed: Feed) -> bool:
        """Return whether events can be read; at the log's end, make the feed live."""
        if feed.notices:
            self._notices.send_due()
        if feed.awaits_dtd or not (self._is_catching_up(feed) and self._writer.writable):
            return False
        bounds = self._log.bounds
        if feed.cursor <= bounds.last:
            return True
        self.report_losses(feed)
        if self._log.newest_durable >= feed.newest_at_start and not self.is_ahead_of_log(feed):
            feed.go_live(feed.cursor)
            self._notices.begin_live(feed)
        else:
            # Events were being committed when it subscribed.
            feed.awaits_commit = True
            self._on_wait()
        return False

    def is_ahead_of_log(self, feed: Feed) -> bool:
        """Return whether the client received events elsewhere (offset > 0) that the log lacks."""
        marks, coverage = feed.skip_marks.items(), self._log.coverage
        return any(mark[1] > 0 and mark > coverage[origin] for origin, mark in marks)

    def _is_catching_up(self, feed: Feed) -> bool:
        fed = self._feeds.get(feed.number) is feed and feed.state is FeedState.CATCHING_UP
        return fed and not feed.is_paused

    async def _feed_page(self, feed: Feed, events: list[LoggedEvent]) -> None:
        if not self._is_catching_up(feed):
            return
        first = events[0].serial if events else self._log.bounds.first
        if first > feed.cursor:
            if self._recover_trimmed(feed):
                return
            feed.outcomes.gone += first - feed.cursor
            feed.cursor = first
            self._report_retention_gaps(feed)
        events = events_before_notice(feed, events)
        if feed.skip_marks or self._log.flows.withheld:
            events = self._without_received(feed, events)
        events = self._events_before_loss(feed, events)
        for liveness, part in split_at_cut(events, feed.cut):
            for is_readable, group in groupby(part, lambda each: each.level <= self._clearance):
                readable = list(group)
                if not is_readable:
                    # They are not evaluated: neither time nor errors of the query reveal them.
                    for event in readable:
                        self._skip_event(feed, event)
                    continue
                for run in (
                    make_plain_runs(readable)
                    if self._late_validator is None
                    else self._late_validator.split_runs(readable)
                ):
                    if not await self._feed_run(feed, run, liveness):
                        return

    async def _feed_run(self, feed: Feed, run: EventRun, liveness: Liveness) -> bool:
        """Return False if the feed must stop within the run."""
        validator = self._late_validator
        try:
            if (
                validator is not None
                and run.needs_validation
                and (code := validator.rejection_code(run)) is not None
            ):
                self._report_rejected(feed, run.events[0], code)
                return True
            selected = await self._select(feed.matcher_number, run, liveness)
        except DtdNeeded as needed:
            if validator is None:
                raise
            return await self._feed_without_dtd(feed, run, liveness, validator, needed.missing)
        if not self._is_catching_up(feed):
            return False
        sent = self._send_selected(feed, run.events[: len(selected)], selected, liveness)
        return sent and len(selected) == len(run.events)

    async def _feed_without_dtd(
        self,
        feed: Feed,
        run: EventRun,
        liveness: Liveness,
        validator: LateValidator,
        needed: TypeMissing,
    ) -> bool:
        """Feed the events before one whose DTD is unknown; wait for the DTD if that one may
        match."""
        if not self._is_catching_up(feed):
            return False
        index = validator.find_first_of_type(run, needed)
        if index:
            before = attrs.evolve(run, events=run.events[:index])
            rest_of_run = attrs.evolve(run, events=run.events[index:])
            return await self._feed_run(feed, before, liveness) and await self._feed_run(
                feed, rest_of_run, liveness
            )
        event = run.events[0]
        if validator.may_match(feed, run, needed, liveness):
            feed.awaits_dtd = True
            validator.call_when_settled(
                needed, lambda found: self._resume_after_dtd(feed, event, found)
            )
            if feed.awaits_dtd or feed.cursor <= event.serial:
                return False
        else:
            self._skip_event(feed, event)
        rest = run.events[1:]
        return not rest or await self._feed_run(feed, attrs.evolve(run, events=rest), liveness)

    def _resume_after_dtd(self, feed: Feed, event: LoggedEvent, found: bool) -> None:
        feed.awaits_dtd = False
        if not self._is_catching_up(feed) or feed.cursor > event.serial:
            return
        if not found:
            self._report_rejected(feed, event, UNKNOWN_TYPE)
        self.continue_feed(feed)

    def _report_rejected(self, feed: Feed, event: LoggedEvent, code: str) -> None:
        """Skip a rejected event, with a gap if the subscription may match it."""
        if not matches_stream(feed, event):
            self._skip_event(feed, event)
            return
        feed.outcomes.gone += 1
        feed.cursor = event.serial + 1
        feed.unreported_marks[event.origin] = feed.reported_marks[event.origin] = event.mark
        self._writer.send_message(Gap(feed.number, event.origin, event.mark, event.mark, 1, code))

    def _skip_event(self, feed: Feed, event: LoggedEvent) -> None:
        outcomes = feed.outcomes
        outcomes.seen += 1
        if event.level > self._clearance:
            outcomes.denied += 1
        else:
            outcomes.filtered += 1
        feed.cursor = event.serial + 1
        feed.unreported_marks[event.origin] = event.mark

    def _fail_feed(self, failure: Failure, feed: Feed) -> None:
        if self._feeds.get(feed.number) is feed:
            self._on_failed(feed, failure)

    def _send_selected(
        self, feed: Feed, part: list[LoggedEvent], selected: list[bool], liveness: Liveness
    ) -> bool:
        """Return False if the session was full; other subscriptions may have filled it."""
        matched = [index for index, is_selected in enumerate(selected) if is_selected]
        looked_at = len(part)
        for start, end in split_by_size(self._delivery_bytes, [part[i] for i in matched]):
            if not self._writer.writable:
                looked_at = matched[start]
                break
            events = [part[i] for i in matched[start:end]]
            encoded = encode_events(events)
            self._sender.send_delivery(encoded, events, [(len(events), [feed])], liveness)
        feed.outcomes.seen += looked_at
        feed.outcomes.filtered += looked_at - sum(selected[:looked_at])
        if looked_at:
            feed.cursor = part[looked_at - 1].serial + 1
            feed.unreported_marks.update([(event.origin, event.mark) for event in part[:looked_at]])
        return looked_at == len(part)

    def _without_received(self, feed: Feed, events: list[LoggedEvent]) -> list[LoggedEvent]:
        skip = feed.skip_marks
        left = [
            event
            for event in events
            if not event.is_withheld and event.mark > skip.get(event.origin, _BEFORE_ALL)
        ]
        if left:
            # The session may become full: the next page begins behind the last event for it.
            events = events[: events.index(left[-1]) + 1]
        elif events:
            feed.cursor = events[-1].serial + 1
        feed.outcomes.seen += len(events) - len(left)
        feed.outcomes.filtered += len(events) - len(left)
        return left

    def has_loss(self, feed: Feed) -> bool:
        return bool(self._find_losses(feed))

    def report_losses(self, feed: Feed) -> None:
        for loss in self._find_losses(feed):
            self._report_loss(feed, loss)

    def _events_before_loss(self, feed: Feed, events: list[LoggedEvent]) -> list[LoggedEvent]:
        """Return the events before the next loss; report a loss before all of them."""
        own = self._log.origin
        for loss in self._find_losses(feed):
            before = _events_up_to(events, own, loss.after)
            if before:
                return before
            if events:
                self._report_loss(feed, loss)
        return events

    def _find_losses(self, feed: Feed) -> list[BranchLoss]:
        own, losses = self._log.origin, self._log.history_chain.losses
        if not losses or own not in feed.reported_marks:
            return []
        at = max(feed.reported_marks[own], feed.unreported_marks.get(own, _BEFORE_ALL))
        later = [loss for loss in losses if loss.count and at < loss.last]
        return [loss for loss in later if not feed.is_past_loss(own, loss)]

    def _report_loss(self, feed: Feed, loss: BranchLoss) -> None:
        own = self._log.origin
        feed.reported_marks[own] = loss.last
        began = feed.fed_from.get(own, _BEFORE_ALL)
        if self._log.find_fork(began) is None:
            # The loss may lie behind the start of the other branch.
            began = min(began, loss.branch)
        for first, last in loss.gaps(began):
            count = last[1] - first[1] + 1
            feed.outcomes.gone += count
            self._writer.send_message(Gap(feed.number, own, first, last, count, "lost"))

    def _report_retention_gaps(self, feed: Feed) -> list[Gap]:
        gaps = find_retention_gaps(feed.number, feed.reported_marks, self._log.begins_after)
        for gap in gaps:
            feed.reported_marks[gap.origin] = gap.last
            self._writer.send_message(gap)
        return gaps


def _events_up_to(events: list[LoggedEvent], origin: str, mark: Mark) -> list[LoggedEvent]:
    behind = (i for i, each in enumerate(events) if each.origin == origin and each.mark > mark)
    return events[: next(behind, len(events))]
