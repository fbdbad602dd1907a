"""What subscriptions of one link lack and their log will not bring: others have it, or it is a gap.

Retention took it, here or at its origin; or it lies before where this node begins with an origin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from broker.delivery.backlog import Backlog
from broker.delivery.delivery_sender import SessionWriter
from broker.delivery.feed import Feed, FeedState, UnavailableRange
from broker.delivery.recovery_contract import ActiveRecovery, MarkRange
from broker.event.place import Mark
from broker.log.event_log import EventLog
from broker.wire.messages import Gap

_BEFORE_ALL: Mark = (0, 0)


class GapRecovery:
    """Recovers it, where somebody can be asked, and else tells it."""

    def __init__(
        self,
        feeds: Mapping[int, Feed],
        writer: SessionWriter,
        log: EventLog,
        backlog: Backlog,
        feed_from_recovery: Callable[[Feed, ActiveRecovery, Mapping[str, Mark]], object],
    ) -> None:
        """`feeds` are all that the link has at any time, and `backlog` is what waits for them.
        `recover` feeds one with what is recovered, and then with its log, behind these marks."""
        self._feeds = feeds
        self._writer = writer
        self._log = log
        self._backlog = backlog
        self._feed_from_recovery = feed_from_recovery

    def recover_trimmed(self, feed: Feed) -> bool:
        """Retention was faster than a subscription that is behind: all up to now is recovered, if
        that can be, so that it is not overtaken again at once."""
        return self._start_recovery(feed, self._log.end_position(), "retention", archived=True)

    def _start_recovery(
        self, feed: Feed, upto: Mapping[str, Mark], reason: str, *, archived: bool
    ) -> bool:
        """A subscription lacks something that its log will not bring: all of these origins is
        recovered, if that can be; what is not found is told as a gap for this reason. `archived`:
        only an archive may have it."""
        if feed.start_recovery is None:
            return False
        # Of an origin that its client does not know one that goes on wants all.
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
        # What waits for it was not sent: it comes again.
        self._backlog.drop_events_for(feed)
        log_starts = {**starts, **{origin: upto[origin] for origin in ranges}}
        self._feed_from_recovery(feed, recovery, log_starts)
        return True

    def report_unavailable(self, feed: Feed) -> None:
        """A subscription is fed now: it is told what was gone before."""
        unavailable, feed.unavailable_ranges = feed.unavailable_ranges, {}
        for each in unavailable.values():
            self._recover_or_store(feed, each)

    def recover_or_report(self, origin: str, after: Mark, last: Mark, reason: str) -> None:
        """What lies behind `after` and up to `last` does not come here: every subscription that
        has not got so far is told."""
        for feed in self._feeds.values():
            self._recover_or_store(feed, UnavailableRange(origin, after, last, reason))

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
        # For what lies before where the node begins it has not waited, if it has had nothing of it.
        begins = unavailable.after == _BEFORE_ALL and unavailable.reason == "lost"
        is_expected = reported > _BEFORE_ALL or not begins
        is_missing = is_expected and reported[1] < unavailable.last[1]
        if not (is_missing and feed.is_accepted and feed.is_active):
            return
        if reported == _BEFORE_ALL:
            reported = feed.reported_marks[unavailable.origin] = unavailable.after
        upto = {unavailable.origin: max(unavailable.last, self._log.coverage[unavailable.origin])}
        if self._start_recovery(feed, upto, unavailable.reason, archived=not begins):
            return
        if feed.state is FeedState.LIVE and not has_backlog:
            reported = max(reported, unavailable.after)
        # One that has not got to the gap yet is told a wider one: where a client was told of a
        # gap, it begins behind it, if its session breaks now.
        self.report_gap(feed, unavailable.origin, reported, unavailable.last, unavailable.reason)

    def report_gap(self, feed: Feed, origin: str, after: Mark, last: Mark, reason: str) -> None:
        """What lies behind `after` and up to `last` may be missing, and does not come any more."""
        feed.reported_marks[origin] = max(last, feed.reported_marks.get(origin, _BEFORE_ALL))
        first = (max(after[0], 1), after[1] + 1)
        count = last[1] - after[1]
        if reason == "retention":
            feed.outcomes.gone += count
        self._writer.send_message(Gap(feed.number, origin, first, last, count, reason))
