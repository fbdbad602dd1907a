"""Events that the subscriptions of a session get through a mesh instead (DCP D5)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from broker.delivery.commit_share import CommitShare, encode_runs
from broker.delivery.feed import Feed
from broker.event.flow import pattern_of
from broker.log.logged_event import LoggedEvent
from broker.wire.held_flows import HeldBack


class HeldFlows:
    """Held flows of the live subscriptions of one session.

    The client gets the newest marks of its held flows, so that it notices events that the mesh does
    not bring. Catch-up and recoveries deliver held flows; the client ignores these events, whose
    marks are stated too.
    """

    def __init__(self, feeds: Mapping[int, Feed], clearance: int) -> None:
        """`clearance` is the rank of the client's highest security level."""
        self.numbers: set[int] = set()
        """Of the subscriptions with held flows, which may have ended."""
        self._feeds = feeds
        self._clearance = clearance

    def hold_flows(self, number: int, patterns: Iterable[str]) -> None:
        """Deliver no live events of flows with these carrying patterns to a subscription."""
        feed = self._feeds.get(number)
        if feed is not None:
            # A default flow has no pattern, and reaches no mesh.
            feed.held_patterns = frozenset(patterns) - {""}
            self.numbers.add(number)

    def without_held(self, share: CommitShare) -> CommitShare:
        """Return the share without the events of held flows, and note their marks."""
        events: list[LoggedEvent] = []
        recipients: list[list[Feed]] = []
        start = 0
        for count, feeds in share.runs:
            is_held = any(feed.held_patterns for feed in feeds)
            for event in share.events[start : start + count]:
                left = self._select(event, feeds) if is_held else feeds
                if left:
                    events.append(event)
                    recipients.append(left)
            start += count
        return CommitShare(events, deque(encode_runs(recipients)))

    def _select(self, event: LoggedEvent, feeds: list[Feed]) -> list[Feed]:
        pattern = pattern_of(event.origin)
        left = []
        for feed in feeds:
            if pattern not in feed.held_patterns:
                left.append(feed)
            elif event.level <= self._clearance:
                feed.note_held_back([event])
        return left

    def take_messages(self) -> Iterator[HeldBack]:
        """Return the new marks of each subscription, once."""
        self.numbers &= self._feeds.keys()
        for number in sorted(self.numbers):
            feed = self._feeds[number]
            if feed.held_back:
                newest = tuple([(flow, *mark) for flow, mark in sorted(feed.held_back.items())])
                feed.held_back.clear()
                yield HeldBack(number, newest)
