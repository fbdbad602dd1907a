"""Notices of stream transports for the subscriptions of one session.

A notice has the serial of the next event of the log. A live subscription gets it at once, or behind
its queued events; one that reads the log gets it where it reaches the serial. A subscription that
becomes live for the first time gets the present statuses and coverage of its sites, and no earlier
ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from twisted.python.failure import Failure

from broker.delivery.backlog import Backlog
from broker.delivery.delivery_sender import SessionWriter
from broker.delivery.feed import Feed, FeedState, WaitingNotice
from broker.errors import QueueFull
from broker.event.site_notice import SiteCoverage, SiteNotice
from broker.event.stream import StreamPattern
from broker.log.logged_event import LoggedEvent
from broker.wire.messages import COVERAGE_VERSION, ORDER_VERSION
from broker.wire.site_notice import notice_to_message

#: Of one subscription. Beyond that only the newest status and coverage of each site wait, and
#: neighbouring ranges of missing messages are one. Beyond that again the subscription ends with
#: `queue-full`.
MOST_WAITING = 256

#: Returns the present statuses and coverage of the sites whose stacks carry streams of a pattern.
FindStatuses: TypeAlias = Callable[[StreamPattern | None], Iterable[SiteNotice]]


class SessionSiteNotices:
    def __init__(
        self,
        feeds: Mapping[int, Feed],
        writer: SessionWriter,
        backlog: Backlog,
        on_failed: Callable[[Feed, Failure], None],
    ) -> None:
        self._feeds = feeds
        self._writer = writer
        self._backlog = backlog
        self._on_failed = on_failed
        self.find_statuses: FindStatuses = lambda _: ()
        self.has_waiting = False
        """True if a subscription may have waiting notices."""

    def deliver_notice(
        self, notice: SiteNotice, patterns: Sequence[StreamPattern], serial: int
    ) -> None:
        """Deliver to the subscriptions whose streams overlap one of the patterns."""
        if not self._takes(notice):
            return
        waiting = WaitingNotice(serial, notice)
        for feed in list(self._feeds.values()):
            if feed.overlaps(patterns) and (feed.knows_statuses or waiting.subject is None):
                self._add_notice(feed, waiting)
        self.send_due()

    def _takes(self, notice: SiteNotice) -> bool:
        """Return whether the client's version has such notices."""
        needed = COVERAGE_VERSION if isinstance(notice, SiteCoverage) else ORDER_VERSION
        return self._writer.version >= needed

    def begin_live(self, feed: Feed) -> None:
        """Let a subscription that is live from now on know its sites."""
        if not feed.knows_statuses:
            feed.knows_statuses = True
            found = filter(self._takes, self.find_statuses(feed.pattern))
            feed.notices += [WaitingNotice(0, notice) for notice in found]
            self.has_waiting = self.has_waiting or bool(feed.notices)
        self.send_due()

    def _add_notice(self, feed: Feed, waiting: WaitingNotice) -> None:
        self.has_waiting = True
        feed.notices.append(waiting)
        if len(feed.notices) > MOST_WAITING:
            feed.notices = _shorten(feed.notices)
            if len(feed.notices) > MOST_WAITING:
                error = QueueFull("the subscription takes notices about sites too slowly")
                self._on_failed(feed, Failure(error))

    def send_due(self) -> None:
        """Send the notices whose earlier events have been sent, while the session has room."""
        if not self.has_waiting:
            return
        for feed in list(self._feeds.values()):
            while feed.notices and self._writer.writable and self._is_due(feed):
                message = notice_to_message(feed.number, feed.notices.pop(0).notice)
                self._writer.send_message(message)
        self.has_waiting = any(feed.notices for feed in self._feeds.values())

    def _is_due(self, feed: Feed) -> bool:
        serial = feed.notices[0].serial
        if feed.state is FeedState.LIVE:
            return self._backlog.first_serial_for(feed, serial) >= serial
        is_reading = feed.state is FeedState.CATCHING_UP and not feed.is_paused
        return is_reading and feed.cursor >= serial

    def cuts(self) -> list[int]:
        """Return the serials of waiting notices: events before and behind are sent apart."""
        if not self.has_waiting:
            return []
        return sorted({each.serial for feed in self._feeds.values() for each in feed.notices})


def events_before_notice(feed: Feed, events: list[LoggedEvent]) -> list[LoggedEvent]:
    """Return the events before the next notice of a subscription that reads the log."""
    if not feed.notices:
        return events
    serial = feed.notices[0].serial
    return [event for event in events if event.serial < serial]


def _shorten(notices: Sequence[WaitingNotice]) -> list[WaitingNotice]:
    newest: dict[object, WaitingNotice] = {}
    for each in notices:
        if (subject := each.subject) is not None:
            # It moves to the end: the last one of a subject keeps its place.
            earlier = newest.pop(subject, each)
            newest[subject] = each if earlier is each else earlier.replaced_by(each)
    last = {each.subject: each for each in notices}
    left: list[WaitingNotice] = []
    for each in notices:
        if each.subject is not None:
            if last[each.subject] is each:
                left.append(newest[each.subject])
            continue
        joined = left[-1].join(each) if left else None
        if joined is None:
            left.append(each)
        else:
            left[-1] = joined
    return left
