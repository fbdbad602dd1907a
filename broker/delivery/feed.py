"""One subscription as the output component feeds it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping

import attrs

from broker.delivery.recovery_contract import ActiveRecovery, MarkRange
from broker.event.place import Mark
from broker.event.stream import StreamPattern
from broker.ingest.outcomes import DeliveryOutcomes
from broker.log.history import BranchLoss
from broker.log.logged_event import LoggedEvent
from broker.matching.query.query import Query


class FeedState(enum.Enum):
    """Where a subscription's events come from."""

    UNCONFIRMED = "unconfirmed"
    """Nothing goes out before the client is told that the subscription is accepted."""
    LIVE = "live"
    """Straight from each commit; a transient one's excess waits in the link's queue."""
    RECOVERING = "recovering"
    """From elsewhere: what its client missed and the log has not."""
    CATCHING_UP = "catching-up"
    """From the log, at its own cursor, until it reaches the end."""


@attrs.define
class DroppedRange:
    """Events of one origin that a queue has lost."""

    first: Mark
    last: Mark
    count: int


@attrs.frozen
class UnavailableRange:
    """What does not come here any more, of an origin: behind `after` and up to `last`."""

    origin: str
    after: Mark
    last: Mark
    reason: str


@attrs.define(eq=False)
class Feed:
    """A subscription of one link.

    `number` is the client's own, `matcher_number` the matcher's. While catching up, `cursor` is
    the serial to read next, and commits are ignored: they will be read.
    """

    number: int
    matcher_number: int
    is_durable: bool
    cut: int
    """A serial: what lies up to it is recovery, what follows live."""
    cursor: int
    query: Query | None = None
    """For who is to be told of changed types; None: nobody is."""
    pattern: StreamPattern | None = None
    """The streams that it asked for, for who wants an explanation."""
    elsewhere_at_start: int = 0
    """The log's count of places elsewhere when it subscribed."""
    newest_at_start: Mark = (0, 0)
    """(epoch, serial) of the newest event when it subscribed: the matcher knows it for whatever
    follows."""
    start_marks: Mapping[str, Mark] = attrs.field(factory=dict)
    """What lies up to these marks is not for it: its client has had it, or it is too old."""
    reported_marks: dict[str, Mark] = attrs.field(factory=dict)
    """The position that the client knows, or a little less."""
    skip_marks: dict[str, Mark] = attrs.field(factory=dict)
    """While catching up: what the client has had already of these origins."""
    is_accepted: bool = False
    """Whether its client was told that it is."""
    is_active: bool = True
    """Whether nothing that matches is missed of other origins, as far as they are covered."""
    active_from: dict[str, Mark] = attrs.field(factory=dict)
    """Where that begins."""
    is_continuous: bool = False
    """Whether it goes on where its client has got to, and the node has wanted it all the time: then
    what lies before `flows_from` comes, too."""
    start_recovery: Callable[[Mapping[str, MarkRange], str, bool], ActiveRecovery | None] | None = (
        None
    )
    """Begins to recover what does not come by the log, for the reason of a gap that is told if
    nobody has it, and from an archive alone if no log can have it; None where there is nobody to
    ask, or its end is asked for."""
    wants_stream_times: bool = False
    """Whether its client asked for stream times."""
    state: FeedState = FeedState.UNCONFIRMED
    is_paused: bool = False
    """Nothing is sent before it is resumed; its cursor stays where it is."""
    is_reading: bool = False
    awaits_dtd: bool = False
    """While catching up: the next event may be for it, and waits for its DTD."""
    awaits_commit: bool = False
    """At the log's end, but the cut is not committed yet."""
    uncounted_from: int = 0
    """While live: the first serial that was not counted yet."""
    unreported_marks: dict[str, Mark] = attrs.field(factory=dict)
    """While catching up: how far it has got in the log, if the client was not told yet."""
    reported_version: int = 0
    """The version of the log's coverage that the client knows, where it is live."""
    dropped_ranges: dict[str, DroppedRange] = attrs.field(factory=dict)
    """What the queue lost of each origin since the client was last told."""
    unavailable_ranges: dict[str, UnavailableRange] = attrs.field(factory=dict)
    """Before it is fed, or while it is recovering: what others said they do not have any more,
    by origin."""
    fed_from: Mapping[str, Mark] = attrs.field(factory=dict)
    """The position of its client when it was fed first."""
    outcomes: DeliveryOutcomes = attrs.field(factory=DeliveryOutcomes)

    def is_past_loss(self, origin: str, loss: BranchLoss) -> bool:
        """Whether its client was on the other branch, behind all that was lost of that."""
        at = self.fed_from.get(origin, (0, 0))
        return loss.branch < at <= (loss.after[0], 0) and at >= loss.upto

    def go_live(self, next_serial: int) -> None:
        """The log's end is reached: everything from `next_serial` on comes with the commits."""
        self.state = FeedState.LIVE
        self.awaits_commit = False
        self.uncounted_from = self.cursor = next_serial
        self.reported_version = 0
        self.unreported_marks.clear()
        self.skip_marks.clear()

    def fall_behind(self, serial: int) -> None:
        """Read on from `serial`, which could not be sent."""
        self.count_filtered(serial)
        self.state = FeedState.CATCHING_UP
        self.cursor = serial

    def record_drop(self, event: LoggedEvent) -> None:
        """The queue has lost an event that was for it."""
        self.outcomes.dropped += 1
        dropped = self.dropped_ranges.setdefault(
            event.origin, DroppedRange(event.mark, event.mark, 0)
        )
        dropped.last = event.mark
        dropped.count += 1

    def add_unavailable(self, unavailable: UnavailableRange) -> None:
        """Something does not come any more, and it is too early to tell."""
        known = self.unavailable_ranges.get(unavailable.origin, unavailable)
        self.unavailable_ranges[unavailable.origin] = attrs.evolve(
            unavailable,
            after=min(known.after, unavailable.after),
            last=max(known.last, unavailable.last),
        )

    def count_filtered(self, end: int) -> None:
        """Count what came live before `end`: whatever was not counted otherwise was filtered."""
        if self.state is not FeedState.LIVE:
            return
        passed = max(0, end - self.uncounted_from)
        self.uncounted_from = max(self.uncounted_from, end)
        self.outcomes.seen += passed
        self.outcomes.filtered += passed

    def roll_back(self, serial: int) -> None:
        """A failed commit took its serials back: `serial` will be given again."""
        self.uncounted_from = min(self.uncounted_from, serial)
        self.cursor = min(self.cursor, serial)
        self.cut = min(self.cut, serial - 1)
