"""Gap handling for one session: recover missing events from other nodes, or report a gap.

Events are missing after retention at this node or the origin, or before this node's start with an
origin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from broker.delivery.backlog import Backlog
from broker.delivery.delivery_sender import DeliverySender
from broker.delivery.feed import Feed, FeedState, UnavailableRange
from broker.delivery.recovery_contract import ActiveRecovery, MarkRange
from broker.event.envelope import Liveness
from broker.event.flow import pattern_of
from broker.event.gap_reason import LEFT_OUT, RETENTION
from broker.event.place import Mark
from broker.log.damage import Span
from broker.log.event_log import EventLog
from broker.log.logged_event import LoggedEvent
from broker.streams.bounded_queue import LostRange
from broker.streams.dropped_count import DroppedCount
from broker.streams.queue_policy import BLOCK, FAIL
from broker.wire.event_batch import encode_events
from broker.wire.messages import Gap

_BEFORE_ALL: Mark = (0, 0)


class GapRecovery:
    def __init__(
        self,
        feeds: Mapping[int, Feed],
        sender: DeliverySender,
        log: EventLog,
        backlog: Backlog,
        clearance: int,
        feed_from_recovery: Callable[[Feed, ActiveRecovery, Mapping[str, Mark]], object],
    ) -> None:
        """`feed_from_recovery` feeds from a recovery, then from the log behind the given marks."""
        self._feeds = feeds
        self._sender, self._writer = sender, sender.writer
        self._log = log
        self._backlog = backlog
        self._clearance = clearance
        self._feed_from_recovery = feed_from_recovery

    def recover_trimmed(self, feed: Feed) -> bool:
        """Recover all events up to now, or return False. A shorter range could be overtaken by
        retention at once."""
        is_archived = not self._log.has_left_out
        return self._start_recovery(feed, self._log.end_position(), RETENTION, archived=is_archived)

    def _start_recovery(
        self, feed: Feed, upto: Mapping[str, Mark], reason: str, *, archived: bool
    ) -> bool:
        """Return False if no recovery is possible. Events not found become a gap with `reason`.
        `archived`: only an archive can have them."""
        if feed.start_recovery is None:
            return False
        # A continuous subscription gets all of an origin that its client does not know.
        starts = {**({} if feed.is_continuous else feed.active_from), **feed.reported_marks}
        for origin, mark in feed.unreported_marks.items():
            starts[origin] = max(mark, starts.get(origin, mark))
        ranges: dict[str, MarkRange] = {
            origin: (starts.get(origin, _BEFORE_ALL), mark)
            for origin, mark in upto.items()
            if starts.get(origin, _BEFORE_ALL)[1] < mark[1]
        }
        recovery = feed.start_recovery(ranges, reason, archived)
        if recovery is None:
            return False
        feed.count_filtered(self._log.bounds.last + 1)
        feed.unreported_marks.clear()
        feed.note_recovered(ranges)
        # The recovery sends queued events too.
        self._backlog.drop_events_for(feed)
        log_starts = {**starts, **{origin: upto[origin] for origin in ranges}}
        self._feed_from_recovery(feed, recovery, log_starts)
        return True

    def report_unavailable(self, feed: Feed) -> None:
        unavailable, feed.unavailable_ranges = feed.unavailable_ranges, {}
        for each in unavailable.values():
            self._recover_or_store(feed, each)

    def recover_or_report(self, origin: str, after: Mark, last: Mark, reason: str) -> None:
        """Recover the range behind `after` up to `last` where it is missing, or report a gap."""
        for feed in self._feeds.values():
            self._recover_or_store(feed, UnavailableRange(origin, after, last, reason))

    def report_dropped(
        self, origin: str, after: Mark, last: Mark | None, dropped: Sequence[DroppedCount]
    ) -> list[Feed]:
        """Report the events behind `after` up to `last` that a queue policy dropped on the way.

        Return the subscriptions that must end, because their queue is full.
        """
        feeds = [feed for feed in self._feeds.values() if feed.may_match(origin)]
        if last is None:
            return [each for each in feeds if each.policy == FAIL and each.state is FeedState.LIVE]
        visible = [each for each in dropped if each.rank <= self._clearance]
        is_coalesced = all(each.is_coalesced for each in visible)
        for feed in feeds:
            if feed.state is not FeedState.LIVE or feed.policy == BLOCK:
                # Its interest was added after this range was requested.
                self._recover_or_store(feed, UnavailableRange(origin, after, last, "slow"))
                continue
            known = max(feed.reported_marks.get(origin, after), feed.active_from.get(origin, after))
            begin = max(after, known)
            if not visible or begin >= last:
                continue
            count = sum([each.events for each in visible])
            feed.outcomes.gone += count
            first = (max(begin[0], 1), begin[1] + 1)
            lost = LostRange(first, last, count, is_coalesced, is_logged=False)
            if not self._backlog.add_loss(feed, origin, lost):
                feed.reported_marks[origin] = last
                self._writer.send_message(make_gap(feed, origin, lost))
        return []

    def handle_left_out(
        self, feed: Feed, flow: str, place: Mark, event: LoggedEvent | None
    ) -> None:
        """Deliver an event that the log has passed without it, recover it, or report a gap.

        Behind a later event of its flow it would be out of order. None: it may not match.
        """
        if feed.has_recovered(flow, place):
            return
        is_begun = feed.state is not FeedState.UNCONFIRMED
        is_passed = is_begun and self._has_passed(feed, flow, place)
        can_deliver = feed.state is FeedState.LIVE and not feed.is_paused and self._writer.writable
        if is_passed or (can_deliver and event is not None and not self._backlog.has_pending):
            begins = feed.start_marks, {} if feed.is_continuous else feed.active_from
            is_due = place > max(each.get(flow, _BEFORE_ALL) for each in begins)
            is_held = pattern_of(flow) in feed.held_patterns
            if not (is_due and feed.is_accepted and feed.is_active) or is_held:
                return
            if is_passed or event is None:
                feed.outcomes.gone += 1
                # A later recovery does not bring it.
                feed.reported_marks[flow] = max(place, feed.reported_marks.get(flow, place))
                self._writer.send_message(Gap(feed.number, flow, place, place, 1, LEFT_OUT))
            else:
                feed.outcomes.seen += 1
                encoded = encode_events([event])
                self._sender.send_delivery(encoded, [event], [(1, [feed])], Liveness.LIVE)
            return
        after = (place[0], place[1] - 1)
        self._recover_or_store(feed, UnavailableRange(flow, after, place, LEFT_OUT))

    @staticmethod
    def _has_passed(feed: Feed, flow: str, place: Mark) -> bool:
        """Return whether the client's position may be at a place or behind it."""
        marks = feed.reported_marks, feed.unreported_marks
        return place <= max(each.get(flow, _BEFORE_ALL) for each in marks)

    def recover_or_report_queued(self, feed: Feed, losses: Sequence[tuple[str, LostRange]]) -> None:
        """Recover losses behind events that the subscription will read again, or report gaps."""
        for origin, lost in losses:
            after = (lost.first[0], lost.first[1] - 1)
            self._recover_or_store(feed, UnavailableRange(origin, after, lost.last, "slow"))

    def _recover_or_store(self, feed: Feed, unavailable: UnavailableRange) -> None:
        if feed.state in (FeedState.UNCONFIRMED, FeedState.RECOVERING):
            feed.add_unavailable(unavailable)
        else:
            self._recover_or_report_now(feed, unavailable)

    def _recover_or_report_now(self, feed: Feed, unavailable: UnavailableRange) -> None:
        has_backlog = self._backlog.has_pending
        reported = feed.reported_marks.get(unavailable.origin, _BEFORE_ALL)
        if not feed.is_continuous or reported == _BEFORE_ALL:
            reported = max(reported, feed.active_from.get(unavailable.origin, _BEFORE_ALL))
        # Without earlier events of an origin, a subscription does not miss events before this
        # node's start with the origin.
        begins = unavailable.after == _BEFORE_ALL and unavailable.reason != RETENTION
        is_expected = reported > _BEFORE_ALL or not begins
        is_missing = is_expected and reported[1] < unavailable.last[1]
        if not (is_missing and feed.is_accepted and feed.is_active):
            return
        if reported == _BEFORE_ALL:
            reported = feed.reported_marks[unavailable.origin] = unavailable.after
        upto = {unavailable.origin: max(unavailable.last, self._log.coverage[unavailable.origin])}
        is_archived = not begins and unavailable.reason != LEFT_OUT
        if self._start_recovery(feed, upto, unavailable.reason, archived=is_archived):
            return
        if feed.state is FeedState.LIVE and not has_backlog:
            reported = max(reported, unavailable.after)
        # A client that has not reached the gap gets a wider one. If its session breaks now, it
        # resumes behind the gap.
        self.report_gap(feed, unavailable.origin, reported, unavailable.last, unavailable.reason)

    def report_gap(self, feed: Feed, origin: str, after: Mark, last: Mark, reason: str) -> None:
        """Report that events behind `after` up to `last` may be missing for good."""
        feed.reported_marks[origin] = max(last, feed.reported_marks.get(origin, _BEFORE_ALL))
        first = (max(after[0], 1), after[1] + 1)
        count = last[1] - after[1]
        if reason == RETENTION:
            feed.outcomes.gone += count
        self._writer.send_message(Gap(feed.number, origin, first, last, count, reason))


def make_gap(feed: Feed, origin: str, lost: LostRange) -> Gap:
    """Return the gap for events that a queue dropped."""
    reason = "coalesced" if lost.is_coalesced else "slow"
    return Gap(feed.number, origin, lost.first, lost.last, lost.count, reason)


def make_damage_gap(number: int, span: Span, reason: str) -> Gap:
    epoch, offset = span.after
    return Gap(
        number=number,
        origin=span.origin,
        first=(max(epoch, 1), offset + 1),
        last=span.upto,
        count=span.upto[1] - offset,
        reason=reason,
    )


def find_retention_gaps(
    number: int, marks: Mapping[str, Mark], since: Mapping[str, Mark]
) -> list[Gap]:
    """Return gaps between the client's marks and the log's start, `since`."""
    return [
        Gap(
            number=number,
            origin=origin,
            first=(max(mark[0], 1), mark[1] + 1),
            last=since[origin],
            count=since[origin][1] - mark[1],
            reason=RETENTION,
        )
        for origin, mark in marks.items()
        # An epoch may have begun without events.
        if mark[1] < since.get(origin, _BEFORE_ALL)[1]
    ]
