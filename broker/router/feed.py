"""One subscription as the output component feeds it."""

from __future__ import annotations

import enum

import attrs

from broker.content.query.query import Query
from broker.event.place import Mark
from broker.event.stream import StreamPattern
from broker.router.outcomes import DeliveryOutcomes


class Pace(enum.Enum):
    """Where a subscription's events come from."""

    UNCONFIRMED = "unconfirmed"
    """Nothing goes out before the client is told that the subscription is accepted."""
    LIVE = "live"
    """Straight from each commit; a transient one's excess waits in the link's queue."""
    CATCHING_UP = "catching-up"
    """From the log, at its own cursor, until it reaches the end."""


@attrs.define(eq=False)
class Feed:
    """A subscription of one link.

    `number` is the client's own, `matcher_number` the matcher's. While catching up, `cursor` is
    the offset to read next, and commits are ignored: they will be read.
    """

    number: int
    matcher_number: int
    durable: bool
    cut: Mark
    """What the client was told: what lies up to it is recovery, what follows live."""
    cursor: int
    query: Query | None = None
    """For who is to be told of changed types; None: nobody is."""
    pattern: StreamPattern | None = None
    """The streams that it asked for, for who wants an explanation."""
    given: Mark = attrs.field(default=attrs.Factory(lambda feed: feed.cut, takes_self=True))
    """The newest place when it subscribed: the matcher knows it for whatever follows."""
    pace: Pace = Pace.UNCONFIRMED
    reading: bool = False
    waiting_for_commit: bool = False
    """At the log's end, but the cut is not committed yet."""
    live_from: int = 0
    """While live: the first offset that was not counted yet."""
    scanned: Mark = (0, 0)
    """The newest event that was looked at for this subscription, with its own epoch."""
    told: Mark = (0, 0)
    """The position that the client knows."""
    dropped_first: Mark | None = None
    dropped_last: Mark = (0, 0)
    dropped_count: int = 0
    """What the queue lost since the client was last told."""
    outcomes: DeliveryOutcomes = attrs.field(factory=DeliveryOutcomes)

    def go_live(self, next_offset: int) -> None:
        """The log's end is reached: everything from `next_offset` on comes with the commits."""
        self.pace = Pace.LIVE
        self.waiting_for_commit = False
        self.live_from = self.cursor = next_offset

    def fall_behind(self, offset: int) -> None:
        """Read on from `offset`, which could not be sent."""
        self.settle(offset)
        self.pace = Pace.CATCHING_UP
        self.cursor = offset

    def settle(self, end: int) -> None:
        """Count what came live before `end`: whatever was not counted otherwise was filtered."""
        if self.pace is not Pace.LIVE:
            return
        passed = max(0, end - self.live_from)
        self.live_from = max(self.live_from, end)
        self.outcomes.seen += passed
        self.outcomes.filtered += passed

    def begin_again(self, offset: int) -> None:
        """A failed commit took its places back: `offset` will be given again."""
        self.live_from = min(self.live_from, offset)
        self.cursor = min(self.cursor, offset)

    def matched_live(self, count: int) -> None:
        """Events came live and matched: they are none of the filtered, which `settle` counts."""
        self.outcomes.filtered -= count
