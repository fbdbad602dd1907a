"""Feeding subscriptions from the log, each at its own cursor, until they reach its end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeAlias

import attrs
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from broker.delivery.feed import Feed, Pace
from broker.delivery.outgoing import split_at
from broker.delivery.sending import Sending
from broker.event.envelope import Liveness
from broker.event.place import Mark
from broker.ingest.late_judgement import UNKNOWN_TYPE, LateJudgement, Run, wants_stream, whole
from broker.log.chunk import split_by_size
from broker.log.damage import Damage, DamageFound, Span
from broker.log.event_log import EventLog
from broker.log.history import BranchLoss
from broker.log.logged_event import LoggedEvent
from broker.matching.contract import DtdNeeded, TypeMissing
from broker.wire.event_batch import encode_events
from broker.wire.messages import Gap

#: A page of the log that one catching-up subscription reads at a time: so many events, of so many
#: full deliveries.
PAGE_EVENTS = 256
PAGE_DELIVERIES = 2

#: Before all events.
_NOWHERE: Mark = (0, 0)

#: Says which documents match a matcher's number: of the first ones, as many as there is time for.
#: Variants of their DTDs may follow.
Select: TypeAlias = Callable[..., Coroutine[Any, Any, list[bool]]]


class CatchingUp:
    """The subscriptions of one link that are behind."""

    def __init__(
        self,
        feeds: Mapping[int, Feed],
        sending: Sending,
        *,
        clearance: int,
        delivery: int,
        log: EventLog,
        select: Select,
        overtaken: Callable[[Feed], bool],
        failed: Callable[[Feed, Failure], None],
        wait: Callable[[], object] = lambda: None,
        late: LateJudgement | None = None,
    ) -> None:
        """`feeds` are all that the link has at any time; `delivery` is the size of one in bytes.
        `overtaken` is asked where retention took what was not read yet: whether something else
        feeds it now. `wait` is called when a subscription waits for the next commit."""
        self._feeds = feeds
        self._sending = sending
        self._outlet = sending.outlet
        self._clearance = clearance
        self._delivery = delivery
        self._log = log
        self._select = select
        self._overtaken = overtaken
        self._failed = failed
        self._wait = wait
        self._late = late
        self._behind: deque[Feed] = deque()  # those that wait for their turn to read
        self._reading = False

    def begin(self, feed: Feed) -> None:
        """Feed a subscription from its cursor on, which may lie behind what is gone."""
        feed.began = dict(feed.told)
        if gone(feed.number, feed.told, self._log.begins_after) and self._overtaken(feed):
            return
        for gap in self._tell_gone(feed):
            feed.outcomes.gone += gap.count
        self.read_on(feed)

    def read_on(self, feed: Feed) -> None:
        """Bring a subscription up to the log's end, as far as the session takes it."""
        if not feed.reading:
            feed.reading = True
            self._behind.append(feed)
        if not self._reading:
            self._reading = True
            Deferred.fromCoroutine(self._catch_up())

    async def _catch_up(self) -> None:
        """Read pages until the log's end, or until the session is full: for one subscription at a
        time, a page each in turn. If all read at once, most would find the session full and read
        the same again."""
        page_bytes = PAGE_DELIVERIES * self._delivery
        while self._behind:
            feed = self._behind[0]
            try:
                if self._is_behind(feed):
                    events = await self._log.read(feed.cursor, PAGE_EVENTS, page_bytes, wait=False)
                    await self._feed_page(feed, events)
                    self._behind.rotate(-1)
                    continue
            except DamageFound as found:
                if self._pass_damage(feed, found.damage):
                    continue
                # Others go on meanwhile.
                self._behind.popleft()
                continue
            except Exception:
                self._could_not_read(Failure(), feed)
            self._behind.popleft()
            feed.reading = False
        self._reading = False

    def _pass_damage(self, feed: Feed, damage: Damage) -> bool:
        """Go on behind damage that was given up, with a gap. Otherwise read on when the log is
        repaired; returns False."""
        if not self._log.repairs.is_given_up(damage):
            repair = self._log.repairs.begin_repair(damage)
            repair.addCallbacks(
                lambda _: None, lambda failure: self._could_not_read(failure, feed)
            ).addBoth(lambda _: self._read_again(feed))
            return False
        if self._is_fed(feed):
            for span in damage.spans:
                if feed.skip.get(span.origin, _NOWHERE) < span.upto:
                    feed.outcomes.gone += span.upto[1] - span.after[1]
                    feed.told[span.origin] = max(span.upto, feed.told.get(span.origin, _NOWHERE))
                    self._outlet.send_message(_gap(feed.number, span, "damaged"))
            feed.cursor = max(feed.cursor, damage.last + 1)
        return True

    def _read_again(self, feed: Feed) -> None:
        feed.reading = False
        if self._is_fed(feed):
            self.read_on(feed)

    def _is_behind(self, feed: Feed) -> bool:
        """Whether there is something to read for it now; at the log's end it goes live."""
        if feed.blocked or not (self._is_fed(feed) and self._outlet.writable):
            return False
        bounds = self._log.bounds
        if feed.cursor <= bounds.last:
            return True
        self.tell_losses(feed)
        if self._log.newest_durable >= feed.given and not self.is_ahead(feed):
            feed.go_live(feed.cursor)
        else:
            # Events that were under way when it subscribed: the next commit brings them.
            feed.waiting_for_commit = True
            self._wait()
        return False

    def is_ahead(self, feed: Feed) -> bool:
        """Whether its client has had elsewhere what has yet to come here, and is not for it."""
        coverage = self._log.coverage
        return any(mark > coverage[origin] for origin, mark in feed.skip.items())

    def _is_fed(self, feed: Feed) -> bool:
        fed = self._feeds.get(feed.number) is feed and feed.pace is Pace.CATCHING_UP
        return fed and not feed.paused

    async def _feed_page(self, feed: Feed, events: list[LoggedEvent]) -> None:
        if not self._is_fed(feed):
            return
        first = events[0].serial if events else self._log.bounds.first
        if first > feed.cursor:
            # Retention has taken what was not read yet.
            if self._overtaken(feed):
                return
            feed.outcomes.gone += first - feed.cursor
            feed.cursor = first
            self._tell_gone(feed)
        if feed.skip:
            events = self._not_had(feed, events)
        events = self._before_loss(feed, events)
        for liveness, part in split_at(events, feed.cut):
            for run in whole(part) if self._late is None else self._late.runs(part):
                if not await self._feed_run(feed, run, liveness):
                    return

    async def _feed_run(self, feed: Feed, run: Run, liveness: Liveness) -> bool:
        """Select from a run of events and send; False if the feed can not go on behind it now."""
        late = self._late
        try:
            if late is not None and run.judged_first and (code := late.code(run)) is not None:
                self._tell_refused(feed, run.events[0], code)
                return True
            documents = [event.document for event in run.events]
            more = (run.variants,) if run.variants else ()
            selected = await self._select(feed.matcher_number, documents, liveness, *more)
        except DtdNeeded as needed:
            if late is None:
                raise
            return await self._feed_before(feed, run, liveness, late, needed.missing)
        if not self._is_fed(feed):
            return False
        sent = self._send_selected(feed, run.events[: len(selected)], selected, liveness)
        return sent and len(selected) == len(run.events)

    async def _feed_before(
        self, feed: Feed, run: Run, liveness: Liveness, late: LateJudgement, needed: TypeMissing
    ) -> bool:
        """The DTD of an event is not here: feed what lies before it, then wait if it may match."""
        if not self._is_fed(feed):
            return False
        index = late.first_of_type(run, needed)
        if index:
            before = attrs.evolve(run, events=run.events[:index])
            behind = attrs.evolve(run, events=run.events[index:])
            return await self._feed_run(feed, before, liveness) and await self._feed_run(
                feed, behind, liveness
            )
        event = run.events[0]
        if late.may_match(feed, run, needed, liveness):
            feed.blocked = True
            late.when_settled(needed, lambda found: self._settled(feed, event, found))
            if feed.blocked or feed.cursor <= event.serial:
                return False
        else:
            self._pass_over(feed, event)
        rest = run.events[1:]
        return not rest or await self._feed_run(feed, attrs.evolve(run, events=rest), liveness)

    def _settled(self, feed: Feed, event: LoggedEvent, found: bool) -> None:
        """The DTD of the next event is here, or is waited for no longer."""
        feed.blocked = False
        if not self._is_fed(feed) or feed.cursor > event.serial:
            return
        if not found:
            self._tell_refused(feed, event, UNKNOWN_TYPE)
        self.read_on(feed)

    def _tell_refused(self, feed: Feed, event: LoggedEvent, code: str) -> None:
        """An event is not delivered: its subscriber gets a gap, if the event may be for it."""
        if event.level > self._clearance or not wants_stream(feed, event):
            self._pass_over(feed, event)
            return
        feed.outcomes.gone += 1
        feed.cursor = event.serial + 1
        feed.passed[event.origin] = feed.told[event.origin] = event.mark
        self._outlet.send_message(Gap(feed.number, event.origin, event.mark, event.mark, 1, code))

    def _pass_over(self, feed: Feed, event: LoggedEvent) -> None:
        feed.outcomes.seen += 1
        feed.outcomes.filtered += 1
        feed.cursor = event.serial + 1
        feed.passed[event.origin] = event.mark

    def _could_not_read(self, failure: Failure, feed: Feed) -> None:
        if self._feeds.get(feed.number) is feed:
            self._failed(feed, failure)

    def _send_selected(
        self, feed: Feed, part: list[LoggedEvent], selected: list[bool], liveness: Liveness
    ) -> bool:
        """Send what was selected; False if the session was full before the end.

        The session may have been filled for others while this page was read.
        """
        rank = self._clearance
        cleared = [i for i, yes in enumerate(selected) if yes and part[i].level <= rank]
        looked_at, sent = len(part), 0
        for start, end in split_by_size(self._delivery, [part[i] for i in cleared]):
            if not self._outlet.writable:
                looked_at = cleared[start]
                break
            events = [part[i] for i in cleared[start:end]]
            encoded = encode_events(events)
            self._sending.send(encoded, events, [(len(events), [feed])], liveness)
            sent = end
        matched = sum(selected[:looked_at])
        feed.outcomes.seen += looked_at
        feed.outcomes.filtered += looked_at - matched
        feed.outcomes.denied += matched - sent
        if looked_at:
            feed.cursor = part[looked_at - 1].serial + 1
            feed.passed.update([(event.origin, event.mark) for event in part[:looked_at]])
        return looked_at == len(part)

    def _not_had(self, feed: Feed, events: list[LoggedEvent]) -> list[LoggedEvent]:
        """The events that lie behind what its client has had already."""
        skip = feed.skip
        left = [event for event in events if event.mark > skip.get(event.origin, _NOWHERE)]
        if events and (not left or left[-1] is not events[-1]):
            feed.cursor = events[-1].serial + 1
        feed.outcomes.seen += len(events) - len(left)
        feed.outcomes.filtered += len(events) - len(left)
        return left

    def has_loss(self, feed: Feed) -> bool:
        """Whether own events that its client has not had were lost (`broker.log.history`)."""
        return bool(self._losses(feed))

    def tell_losses(self, feed: Feed) -> None:
        """Tell a subscription that has reached the log's end of the own events that were lost."""
        for loss in self._losses(feed):
            self._tell_loss(feed, loss)

    def _before_loss(self, feed: Feed, events: list[LoggedEvent]) -> list[LoggedEvent]:
        """The events up to the next loss; a loss that comes first is told."""
        own = self._log.origin
        for loss in self._losses(feed):
            before = _up_to(events, own, loss.after)
            if before:
                return before
            if events:
                self._tell_loss(feed, loss)
        return events

    def _losses(self, feed: Feed) -> list[BranchLoss]:
        own, losses = self._log.origin, self._log.history_chain.losses
        if not losses or own not in feed.told:
            return []
        at = max(feed.told[own], feed.passed.get(own, _NOWHERE))
        return [
            loss
            for loss in losses
            if loss.count and at < loss.last and not feed.has_all_of(own, loss)
        ]

    def _tell_loss(self, feed: Feed, loss: BranchLoss) -> None:
        own = self._log.origin
        feed.told[own] = loss.last
        began = feed.began.get(own, _NOWHERE)
        if self._log.find_fork(began) is None:
            # It lies on this branch, maybe behind the place where the other one began.
            began = min(began, loss.branch)
        for first, last in loss.gaps(began):
            count = last[1] - first[1] + 1
            feed.outcomes.gone += count
            self._outlet.send_message(Gap(feed.number, own, first, last, count, "lost"))

    def _tell_gone(self, feed: Feed) -> list[Gap]:
        gaps = gone(feed.number, feed.told, self._log.begins_after)
        for gap in gaps:
            feed.told[gap.origin] = gap.last
            self._outlet.send_message(gap)
        return gaps


def _up_to(events: list[LoggedEvent], origin: str, mark: Mark) -> list[LoggedEvent]:
    """The events before the first one of an origin that lies behind a mark."""
    behind = (i for i, each in enumerate(events) if each.origin == origin and each.mark > mark)
    return events[: next(behind, len(events))]


def _gap(number: int, span: Span, reason: str) -> Gap:
    epoch, offset = span.after
    return Gap(
        number=number,
        origin=span.origin,
        first=(max(epoch, 1), offset + 1),
        last=span.upto,
        count=span.upto[1] - offset,
        reason=reason,
    )


def gone(number: int, told: Mapping[str, Mark], since: Mapping[str, Mark]) -> list[Gap]:
    """What a subscription has not got any more, of the origins that its client has got to `told`
    in: that is, what the log, which begins behind `since`, does not hold."""
    return [
        Gap(
            number=number,
            origin=origin,
            first=(max(mark[0], 1), mark[1] + 1),
            last=since[origin],
            count=since[origin][1] - mark[1],
            reason="retention",
        )
        for origin, mark in told.items()
        # An epoch may have begun in which there is nothing.
        if mark[1] < since.get(origin, _NOWHERE)[1]
    ]
