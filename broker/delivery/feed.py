"""One subscription as the output component feeds it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping

import attrs

from broker.delivery.recovery import MarkRange, Recovering
from broker.event.place import Mark
from broker.event.stream import StreamPattern
from broker.ingest.outcomes import DeliveryOutcomes
from broker.log.history import BranchLoss
from broker.log.logged_event import LoggedEvent
from broker.matching.query.query import Query


class Pace(enum.Enum):
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
class Dropped:
    """Events of one origin that a queue has lost."""

    first: Mark
    last: Mark
    count: int


@attrs.frozen
class Gone:
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
    durable: bool
    cut: int
    """A serial: what lies up to it is recovery, what follows live."""
    cursor: int
    query: Query | None = None
    """For who is to be told of changed types; None: nobody is."""
    pattern: StreamPattern | None = None
    """The streams that it asked for, for who wants an explanation."""
    elsewhere_before: int = 0
    """The log's count of places elsewhere when it subscribed."""
    given: Mark = (0, 0)
    """(epoch, serial) of the newest event when it subscribed: the matcher knows it for whatever
    follows."""
    begins: Mapping[str, Mark] = attrs.field(factory=dict)
    """What lies up to these marks is not for it: its client has had it, or it is too old."""
    told: dict[str, Mark] = attrs.field(factory=dict)
    """The position that the client knows, or a little less."""
    skip: dict[str, Mark] = attrs.field(factory=dict)
    """While catching up: what the client has had already of these origins."""
    accepted: bool = False
    """Whether its client was told that it is."""
    flowing: bool = True
    """Whether nothing that matches is missed of other origins, as far as they are covered."""
    flows_from: dict[str, Mark] = attrs.field(factory=dict)
    """Where that begins."""
    goes_on: bool = False
    """Whether it goes on where its client has got to, and the node has wanted it all the time: then
    what lies before `flows_from` comes, too."""
    recover: Callable[[Mapping[str, MarkRange], str, bool], Recovering | None] | None = None
    """Begins to recover what does not come by the log, for the reason of a gap that is told if
    nobody has it, and from an archive alone if no log can have it; None where there is nobody to
    ask, or its end is asked for."""
    times: bool = False
    """Whether its client asked for stream times."""
    pace: Pace = Pace.UNCONFIRMED
    paused: bool = False
    """Nothing is sent before it is resumed; its cursor stays where it is."""
    reading: bool = False
    blocked: bool = False
    """While catching up: the next event may be for it, and waits for its DTD."""
    waiting_for_commit: bool = False
    """At the log's end, but the cut is not committed yet."""
    live_from: int = 0
    """While live: the first serial that was not counted yet."""
    passed: dict[str, Mark] = attrs.field(factory=dict)
    """While catching up: how far it has got in the log, if the client was not told yet."""
    told_version: int = 0
    """The version of the log's coverage that the client knows, where it is live."""
    dropped: dict[str, Dropped] = attrs.field(factory=dict)
    """What the queue lost of each origin since the client was last told."""
    gone_meanwhile: dict[str, Gone] = attrs.field(factory=dict)
    """Before it is fed, or while it is recovering: what others said they do not have any more,
    by origin."""
    began: Mapping[str, Mark] = attrs.field(factory=dict)
    """The position of its client when it was fed first."""
    outcomes: DeliveryOutcomes = attrs.field(factory=DeliveryOutcomes)

    def has_all_of(self, origin: str, loss: BranchLoss) -> bool:
        """Whether its client was on the other branch, behind all that was lost of that."""
        at = self.began.get(origin, (0, 0))
        return loss.branch < at <= (loss.after[0], 0) and at >= loss.upto

    def go_live(self, next_serial: int) -> None:
        """The log's end is reached: everything from `next_serial` on comes with the commits."""
        self.pace = Pace.LIVE
        self.waiting_for_commit = False
        self.live_from = self.cursor = next_serial
        self.told_version = 0
        self.passed.clear()
        self.skip.clear()

    def fall_behind(self, serial: int) -> None:
        """Read on from `serial`, which could not be sent."""
        self.settle(serial)
        self.pace = Pace.CATCHING_UP
        self.cursor = serial

    def drop(self, event: LoggedEvent) -> None:
        """The queue has lost an event that was for it."""
        self.outcomes.dropped += 1
        lost = self.dropped.setdefault(event.origin, Dropped(event.mark, event.mark, 0))
        lost.last = event.mark
        lost.count += 1

    def gone(self, gone: Gone) -> None:
        """Something does not come any more, and it is too early to tell."""
        known = self.gone_meanwhile.get(gone.origin, gone)
        self.gone_meanwhile[gone.origin] = attrs.evolve(
            gone, after=min(known.after, gone.after), last=max(known.last, gone.last)
        )

    def settle(self, end: int) -> None:
        """Count what came live before `end`: whatever was not counted otherwise was filtered."""
        if self.pace is not Pace.LIVE:
            return
        passed = max(0, end - self.live_from)
        self.live_from = max(self.live_from, end)
        self.outcomes.seen += passed
        self.outcomes.filtered += passed

    def begin_again(self, serial: int) -> None:
        """A failed commit took its serials back: `serial` will be given again."""
        self.live_from = min(self.live_from, serial)
        self.cursor = min(self.cursor, serial)
        self.cut = min(self.cut, serial - 1)
