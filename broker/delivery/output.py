"""The output component: from a commit to the links that want its events (DCP D21)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from broker.delivery.division import divide
from broker.delivery.feed import Feed
from broker.delivery.link import Link
from broker.delivery.outgoing import Encodings
from broker.event.place import Mark
from broker.ingest.outcomes import DeliveryOutcomes
from broker.log.logged_event import LoggedEvent
from broker.wire.codec import WireTimes


class Output:
    """Knows which link a subscription belongs to, and hands each link its share of a commit."""

    def __init__(self) -> None:
        self._subscribers: dict[int, tuple[Link, Feed]] = {}
        self._links: dict[Link, None] = {}
        self._waiting: dict[Link, None] = {}
        """Links with a subscription that waits for the next commit."""
        self.ended = DeliveryOutcomes()
        """What became of the events of subscriptions that are over."""

    @property
    def links(self) -> Iterable[Link]:
        """All links, in the order in which they came."""
        return self._links

    def add_link(self, link: Link) -> None:
        """From now on the link gets its share of each commit."""
        self._links[link] = None
        link.on_wait = self._wait

    def remove_link(self, link: Link) -> None:
        """Forget a link and all its subscriptions."""
        link.close()
        for number in [n for n, (owner, _) in self._subscribers.items() if owner is link]:
            self.unsubscribe(number)
        self._links.pop(link, None)
        self._waiting.pop(link, None)

    def _wait(self, link: Link) -> None:
        self._waiting[link] = None

    def subscribe(self, link: Link, feed: Feed) -> None:
        """Deliver to `link` what the matcher finds for `feed`."""
        self._subscribers[feed.matcher_number] = (link, feed)
        link.add(feed)

    def unsubscribe(self, matcher_number: int) -> None:
        """Deliver no more for this subscription."""
        link, feed = self._subscribers.pop(matcher_number)
        link.remove(feed.number)
        self.ended.add(feed.outcomes)

    def subscriber(self, matcher_number: int) -> tuple[Link, Feed] | None:
        """The link and feed of a matcher's number."""
        return self._subscribers.get(matcher_number)

    def committed(self, events: list[LoggedEvent], matches: Sequence[tuple[int, ...]]) -> None:
        """Hand durable events to every link that wants some; each link sends once."""
        if events:
            shared = Encodings()
            for link, share in divide(events, matches, self._subscribers).items():
                link.deliver(share, shared)
        if self._waiting:
            waiting, self._waiting = self._waiting, {}
            for link in waiting:
                link.committed()

    def reconsider(self, serial: int, streams: Collection[str]) -> None:
        """Events from `serial` on are refused or not judged yet: subscriptions to their streams
        read the log from there. An empty name stands for any stream."""
        for link in list(self._links):
            link.reconsider(serial, streams)

    def gone(self, origin: str, after: Mark, last: Mark, reason: str) -> None:
        """What another node's log has not got any more, behind `after` and up to `last`, or what
        was not asked for here, never came: let everybody know who waits for it."""
        for link in list(self._links):
            link.gone(origin, after, last, reason)

    def tell_losses(self) -> None:
        """Own events were lost, and can be had of nobody."""
        for link in list(self._links):
            link.tell_losses()

    def begin_again(self, serial: int) -> None:
        """A failed commit took its serials back: `serial` will be given again."""
        for link in self._links:
            link.begin_again(serial)

    def progress(self, times: WireTimes = ()) -> None:
        """Let every link send the positions that moved without a delivery, and stream times."""
        for link in list(self._links):
            link.progress(times)

    @property
    def wants_times(self) -> bool:
        """Whether any subscription asked for stream times."""
        return any(feed.times for _, feed in self._subscribers.values())
