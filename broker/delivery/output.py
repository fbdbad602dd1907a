"""The output component: from a commit to the links that want its events (DCP D21)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from broker.delivery.commit_share import SharedEncodings
from broker.delivery.commit_split import split_commit
from broker.delivery.feed import Feed
from broker.delivery.session_delivery import SessionDelivery
from broker.event.place import Mark
from broker.ingest.outcomes import DeliveryOutcomes
from broker.log.logged_event import LoggedEvent
from broker.wire.codec import WireTimes


class Output:
    """Knows which link a subscription belongs to, and hands each link its share of a commit."""

    def __init__(self) -> None:
        self._feeds: dict[int, tuple[SessionDelivery, Feed]] = {}
        self._session_deliveries: dict[SessionDelivery, None] = {}
        self._waiting_for_commit: dict[SessionDelivery, None] = {}
        """Links with a subscription that waits for the next commit."""
        self.ended_outcomes = DeliveryOutcomes()
        """What became of the events of subscriptions that are over."""

    @property
    def session_deliveries(self) -> Iterable[SessionDelivery]:
        """All links, in the order in which they came."""
        return self._session_deliveries

    def add_session(self, delivery: SessionDelivery) -> None:
        """From now on the link gets its share of each commit."""
        self._session_deliveries[delivery] = None
        delivery.on_wait = self._add_waiting

    def remove_session(self, delivery: SessionDelivery) -> None:
        """Forget a link and all its subscriptions."""
        delivery.close()
        for number in [n for n, (owner, _) in self._feeds.items() if owner is delivery]:
            self.remove_feed(number)
        self._session_deliveries.pop(delivery, None)
        self._waiting_for_commit.pop(delivery, None)

    def _add_waiting(self, delivery: SessionDelivery) -> None:
        self._waiting_for_commit[delivery] = None

    def add_feed(self, delivery: SessionDelivery, feed: Feed) -> None:
        """Deliver to `link` what the matcher finds for `feed`."""
        self._feeds[feed.matcher_number] = (delivery, feed)
        delivery.add_feed(feed)

    def remove_feed(self, matcher_number: int) -> None:
        """Deliver no more for this subscription."""
        delivery, feed = self._feeds.pop(matcher_number)
        delivery.remove_feed(feed.number)
        self.ended_outcomes.add(feed.outcomes)

    def find_feed(self, matcher_number: int) -> tuple[SessionDelivery, Feed] | None:
        """The link and feed of a matcher's number."""
        return self._feeds.get(matcher_number)

    def deliver_commit(self, events: list[LoggedEvent], matches: Sequence[tuple[int, ...]]) -> None:
        """Hand durable events to every link that wants some; each link sends once."""
        if events:
            shared = SharedEncodings()
            for delivery, share in split_commit(events, matches, self._feeds).items():
                delivery.deliver_share(share, shared)
        if self._waiting_for_commit:
            waiting, self._waiting_for_commit = self._waiting_for_commit, {}
            for delivery in waiting:
                delivery.resume_after_commit()

    def reread_from_log(self, serial: int, streams: Collection[str]) -> None:
        """Events from `serial` on are refused or not judged yet: subscriptions to their streams
        read the log from there. An empty name stands for any stream."""
        for delivery in list(self._session_deliveries):
            delivery.reread_from_log(serial, streams)

    def recover_or_report(self, origin: str, after: Mark, last: Mark, reason: str) -> None:
        """What another node's log has not got any more, behind `after` and up to `last`, or what
        was not asked for here, never came: let everybody know who waits for it."""
        for delivery in list(self._session_deliveries):
            delivery.recover_or_report(origin, after, last, reason)

    def report_losses(self) -> None:
        """Own events were lost, and can be had of nobody."""
        for delivery in list(self._session_deliveries):
            delivery.report_losses()

    def roll_back(self, serial: int) -> None:
        """A failed commit took its serials back: `serial` will be given again."""
        for delivery in self._session_deliveries:
            delivery.roll_back(serial)

    def send_progress(self, times: WireTimes = ()) -> None:
        """Let every link send the positions that moved without a delivery, and stream times."""
        for delivery in list(self._session_deliveries):
            delivery.send_progress(times)

    @property
    def needs_stream_times(self) -> bool:
        """Whether any subscription asked for stream times."""
        return any(feed.wants_stream_times for _, feed in self._feeds.values())
