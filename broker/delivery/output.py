"""The output component: from a commit to the sessions with matching subscriptions (DCP D21)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from broker.delivery.commit_share import SharedEncodings
from broker.delivery.commit_split import split_commit
from broker.delivery.feed import Feed, FeedState
from broker.delivery.session_delivery import SessionDelivery
from broker.delivery.site_notices import FindStatuses
from broker.event.envelope import HIGHEST_RANK
from broker.event.place import Mark
from broker.event.site_notice import SiteNotice
from broker.event.stream import StreamPattern
from broker.ingest.outcomes import DeliveryOutcomes
from broker.log.logged_event import LoggedEvent
from broker.streams.contract import CarriedEvent
from broker.streams.dropped_count import DroppedCount
from broker.streams.queue_policy import POLICY_NAMES
from broker.wire.codec import WireTimes


class Output:
    """Delivers to each session its share of a commit."""

    def __init__(self) -> None:
        self._feeds: dict[int, tuple[SessionDelivery, Feed]] = {}
        self._session_deliveries: dict[SessionDelivery, None] = {}
        self._limited: dict[SessionDelivery, None] = {}
        """Those of clients that are not cleared for all levels."""
        self._waiting_for_commit: dict[SessionDelivery, None] = {}
        self.ended_outcomes = DeliveryOutcomes()
        self.find_statuses: FindStatuses = lambda _: ()
        self._ended_dropped: Counter[str] = Counter(dict.fromkeys(POLICY_NAMES, 0))

    @property
    def session_deliveries(self) -> Iterable[SessionDelivery]:
        return self._session_deliveries

    def add_session(self, delivery: SessionDelivery) -> None:
        self._session_deliveries[delivery] = None
        if delivery.clearance < HIGHEST_RANK:
            self._limited[delivery] = None
        delivery.on_wait = self._add_waiting
        delivery.site_notices.find_statuses = self.find_statuses

    def remove_session(self, delivery: SessionDelivery) -> None:
        delivery.close()
        for number in [n for n, (owner, _) in self._feeds.items() if owner is delivery]:
            self.remove_feed(number)
        self._session_deliveries.pop(delivery, None)
        self._limited.pop(delivery, None)
        self._waiting_for_commit.pop(delivery, None)

    def _add_waiting(self, delivery: SessionDelivery) -> None:
        self._waiting_for_commit[delivery] = None

    def add_feed(self, delivery: SessionDelivery, feed: Feed) -> None:
        self._feeds[feed.matcher_number] = (delivery, feed)
        delivery.add_feed(feed)

    def remove_feed(self, matcher_number: int) -> None:
        delivery, feed = self._feeds.pop(matcher_number)
        delivery.remove_feed(feed.number)
        self.ended_outcomes.add(feed.outcomes)
        self._ended_dropped[feed.policy.name] += feed.outcomes.dropped

    def count_dropped_by_policy(self) -> Counter[str]:
        """Return the numbers of dropped events by the name of the subscription's queue policy."""
        counts = self._ended_dropped.copy()
        for _, feed in self._feeds.values():
            counts[feed.policy.name] += feed.outcomes.dropped
        return counts

    def find_feed(self, matcher_number: int) -> tuple[SessionDelivery, Feed] | None:
        return self._feeds.get(matcher_number)

    def deliver_commit(self, events: list[LoggedEvent], matches: Sequence[tuple[int, ...]]) -> None:
        """Each session sends once."""
        if events:
            if self._limited:
                levels = Counter([event.level for event in events])
                for delivery in self._limited:
                    delivery.count_denied(levels)
            shared = SharedEncodings()
            for delivery, share in split_commit(events, matches, self._feeds).items():
                delivery.deliver_share(share, shared)
        if self._waiting_for_commit:
            waiting, self._waiting_for_commit = self._waiting_for_commit, {}
            for delivery in waiting:
                delivery.resume_after_commit()

    def reread_from_log(self, serial: int, streams: Collection[str]) -> None:
        """Let subscriptions to these streams read the log from `serial` on, where events are
        rejected or not validated yet. An empty name stands for all streams."""
        for delivery in list(self._session_deliveries):
            delivery.reread_from_log(serial, streams)

    def recover_or_report(self, origin: str, after: Mark, last: Mark, reason: str) -> None:
        """Recover the range behind `after` up to `last`, or report a gap."""
        for delivery in list(self._session_deliveries):
            delivery.recover_or_report(origin, after, last, reason)

    def report_dropped(
        self, origin: str, after: Mark, last: Mark | None, dropped: Sequence[DroppedCount]
    ) -> None:
        """Report events behind `after` up to `last` that a queue policy dropped on the way."""
        for delivery in list(self._session_deliveries):
            delivery.report_dropped(origin, after, last, dropped)

    def handle_left_out(
        self, flow: str, event: CarriedEvent, numbers: Collection[int] | None, stream: str
    ) -> None:
        """Deliver an event that the log has passed without it, recover it, or report a gap.

        Without the `numbers` of the subscriptions that it matches: where it may match, by its
        stream.
        """
        mark = event.mark
        logged = LoggedEvent(*mark, 0, event.level, event.record, event.document, flow, 0)
        for number, (delivery, feed) in list(self._feeds.items()):
            pattern = feed.pattern
            may_match = not stream or pattern is None or pattern.matches(stream)
            is_wanted = may_match if numbers is None else number in numbers
            if is_wanted and event.level <= delivery.clearance:
                known = None if numbers is None else logged
                delivery.gap_recovery.handle_left_out(feed, flow, mark, known)

    def deliver_notice(
        self, notice: SiteNotice, patterns: Sequence[StreamPattern], serial: int
    ) -> None:
        """Deliver a notice to subscriptions whose streams overlap one of the patterns, before the
        event with this serial."""
        for delivery in list(self._session_deliveries):
            delivery.site_notices.deliver_notice(notice, patterns, serial)

    def has_lagging_subscription(self, flow: str) -> bool:
        """Return whether a subscription may still need past events of a flow from the log."""
        return any(
            (feed.state is not FeedState.LIVE or not feed.is_active) and feed.may_match(flow)
            for _, feed in self._feeds.values()
        )

    def report_losses(self) -> None:
        for delivery in list(self._session_deliveries):
            delivery.report_losses()

    def roll_back(self, serial: int) -> None:
        """Take back the serials of a failed commit, which will be assigned again."""
        for delivery in self._session_deliveries:
            delivery.roll_back(serial)

    def send_progress(self, times: WireTimes = ()) -> None:
        """Send positions that moved without a delivery, and stream times."""
        for delivery in list(self._session_deliveries):
            delivery.send_progress(times)

    @property
    def needs_stream_times(self) -> bool:
        return any(feed.wants_stream_times for _, feed in self._feeds.values())
