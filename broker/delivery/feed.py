"""State of one subscription in the output component."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence

import attrs

from broker.delivery.recovery_contract import ActiveRecovery, MarkRange
from broker.event.flow import may_carry, pattern_of
from broker.event.place import Mark
from broker.event.site_coverage import CoverageTable
from broker.event.site_notice import MissingMessages, SiteCoverage, SiteNotice, SiteStatus
from broker.event.stream import StreamPattern
from broker.ingest.outcomes import DeliveryOutcomes
from broker.log.event_log import EventLog
from broker.log.history import BranchLoss
from broker.log.logged_event import LoggedEvent
from broker.matching.query.query import Query
from broker.streams.queue_policy import BLOCK, DROP_OLDEST, IQueuePolicy, default_policy
from broker.wire.codec import WirePosition


class FeedState(enum.Enum):
    UNCONFIRMED = "unconfirmed"
    """Not accepted yet; nothing is sent."""
    LIVE = "live"
    """Fed by commits. While the session is full, events wait in a queue unless it blocks."""
    RECOVERING = "recovering"
    """Fed by a recovery with events that the log does not have."""
    CATCHING_UP = "catching-up"
    """Fed from the log at its own cursor."""


@attrs.frozen
class UnavailableRange:
    """A range behind `after` up to `last` that this node's log will not receive."""

    origin: str
    after: Mark
    last: Mark
    reason: str


@attrs.frozen
class WaitingNotice:
    """A notice about a site that the client has not got yet."""

    serial: int
    """Earlier events come before it."""
    notice: SiteNotice

    @property
    def subject(self) -> tuple[type[SiteNotice], str, str] | None:
        """Kind, stack and site of a notice that later ones replace; None for another one.

        A subscription that becomes live gets the present ones.
        """
        notice = self.notice
        if isinstance(notice, SiteStatus | SiteCoverage):
            return type(notice), notice.stack, notice.site
        return None

    def replaced_by(self, later: WaitingNotice) -> WaitingNotice:
        """Return a later notice of the same subject, with what is still true of this one."""
        first, last = self.notice, later.notice
        if isinstance(first, SiteCoverage) and isinstance(last, SiteCoverage):
            table = CoverageTable()
            for row in (*first.covered, *last.covered):
                table.add(row)
            return attrs.evolve(later, notice=attrs.evolve(last, covered=table.rows))
        return later

    def join(self, later: WaitingNotice) -> WaitingNotice | None:
        """Return one notice for two neighbouring ranges of missing messages; None for others."""
        first, last = self.notice, later.notice
        if (
            isinstance(first, MissingMessages)
            and isinstance(last, MissingMessages)
            and first.last + 1 == last.first
            and attrs.evolve(last, first=first.first) == attrs.evolve(first, last=last.last)
        ):
            return attrs.evolve(self, notice=attrs.evolve(first, last=last.last))
        return None


@attrs.define(eq=False)
class Feed:
    """`number` is the client's, `matcher_number` the matcher's. During catch-up, `cursor` is the
    next serial to read, and commits are ignored."""

    number: int
    matcher_number: int
    is_durable: bool
    cut: int
    """Serial of the last recovery event; later ones are live."""
    cursor: int
    query: Query | None = None
    """For notices of changed types."""
    pattern: StreamPattern | None = None
    """For explanations."""
    elsewhere_at_start: int = 0
    newest_at_start: Mark = (0, 0)
    """(epoch, serial) at the subscription; the matcher covers later events."""
    start_marks: Mapping[str, Mark] = attrs.field(factory=dict)
    """Earlier events were received before, or are older than the start."""
    reported_marks: dict[str, Mark] = attrs.field(factory=dict)
    """The client's position, or slightly less."""
    skip_marks: dict[str, Mark] = attrs.field(factory=dict)
    """During catch-up: events up to these marks are not sent again."""
    is_accepted: bool = False
    """True if the client knows that it is accepted."""
    is_active: bool = True
    """True if no matching event of other origins is missed, up to the log's coverage."""
    active_from: dict[str, Mark] = attrs.field(factory=dict)
    is_continuous: bool = False
    """True if the subscription resumes at the client's position and this node stayed subscribed.
    Then events before `active_from` arrive too."""
    start_recovery: Callable[[Mapping[str, MarkRange], str, bool], ActiveRecovery | None] | None = (
        None
    )
    """Starts a recovery. Arguments: the ranges, the reason of a gap for events not found, and True
    if only an archive can have them. None without sources, or for a subscription with an end."""
    wants_stream_times: bool = False
    state: FeedState = FeedState.UNCONFIRMED
    is_paused: bool = False
    """Nothing is sent until it is resumed; the cursor stays."""
    held_patterns: frozenset[str] = frozenset()
    """Carrying patterns of the flows that reach the client through a mesh. While the feed is live,
    their events are not delivered."""
    held_back: dict[str, Mark] = attrs.field(factory=dict)
    """Newest mark of each flow that was not delivered, until the client knows it."""
    is_reading: bool = False
    awaits_dtd: bool = False
    """During catch-up: the next event may match."""
    awaits_commit: bool = False
    """At the log's end, but the cut is not committed."""
    uncounted_from: int = 0
    """While live: first serial that is not counted."""
    unreported_marks: dict[str, Mark] = attrs.field(factory=dict)
    """During catch-up: marks read that the client does not know."""
    reported_version: int = 0
    """While live: coverage version that the client knows."""
    recovered: dict[str, tuple[Mark, Mark]] = attrs.field(factory=dict)
    """Last range of each flow that came, or comes, from a recovery."""
    unavailable_ranges: dict[str, UnavailableRange] = attrs.field(factory=dict)
    """By origin; reported when feeding begins or the recovery ends."""
    fed_from: Mapping[str, Mark] = attrs.field(factory=dict)
    """The client's position when feeding began."""
    notices: list[WaitingNotice] = attrs.field(factory=list)
    """Notices about sites that wait, in order."""
    knows_statuses: bool = False
    """True if the client got, or waits for, the present notices about its sites."""
    outcomes: DeliveryOutcomes = attrs.field(factory=DeliveryOutcomes)
    policy: IQueuePolicy = attrs.field()
    """Rule while the session is full. With `block` it reads the log, also if it is transient."""

    @policy.default
    def _default_policy(self) -> IQueuePolicy:
        return default_policy(is_durable=self.is_durable)

    @property
    def needs_own_queue(self) -> bool:
        return self.policy not in (BLOCK, DROP_OLDEST)

    def may_match(self, flow: str) -> bool:
        """Return whether a flow may have streams of the subscription."""
        return self.pattern is None or may_carry(flow, self.pattern)

    def overlaps(self, patterns: Sequence[StreamPattern]) -> bool:
        return self.pattern is None or any(map(self.pattern.overlaps, patterns))

    def is_past_loss(self, origin: str, loss: BranchLoss) -> bool:
        """Return whether the client was on the lost branch, behind all its lost events."""
        at = self.fed_from.get(origin, (0, 0))
        return loss.branch < at <= (loss.after[0], 0) and at >= loss.upto

    def note_held_back(self, events: Sequence[LoggedEvent]) -> None:
        """Note events that the client ignores, or does not get, since a mesh brings them."""
        for event in events:
            if pattern_of(event.origin) in self.held_patterns:
                self.held_back[event.origin] = event.mark

    def go_live(self, next_serial: int) -> None:
        """Switch to live: commits bring everything from `next_serial` on."""
        self.state = FeedState.LIVE
        self.awaits_commit = False
        self.uncounted_from = self.cursor = next_serial
        self.reported_version = 0
        self.unreported_marks.clear()
        self.skip_marks.clear()

    def fall_behind(self, serial: int) -> None:
        self.count_filtered(serial)
        self.state = FeedState.CATCHING_UP
        self.cursor = serial

    def add_unavailable(self, unavailable: UnavailableRange) -> None:
        known = self.unavailable_ranges.get(unavailable.origin, unavailable)
        self.unavailable_ranges[unavailable.origin] = attrs.evolve(
            unavailable,
            after=min(known.after, unavailable.after),
            last=max(known.last, unavailable.last),
        )

    def note_recovered(self, ranges: Mapping[str, MarkRange]) -> None:
        """Note that a recovery brings all matching events of these ranges."""
        for flow, (after, upto) in ranges.items():
            known = self.recovered.get(flow, (after, after))
            begin = known[0] if known[0] <= after <= known[1] else after
            self.recovered[flow] = begin, upto or after

    def has_recovered(self, flow: str, place: Mark) -> bool:
        """Return whether a recovery brings an event, or has brought it."""
        after, upto = self.recovered.get(flow, ((0, 0), (0, 0)))
        return after < place <= upto

    def take_moved_marks(self, log: EventLog) -> WirePosition:
        """Return marks that moved without a delivery: they are reported."""
        if self.state is FeedState.LIVE:
            self.count_filtered(log.bounds.last + 1)
            marks = log.coverage.changed_since(self.reported_version)
            if self.is_active:
                self.reported_version = log.coverage.version
        elif self.state is FeedState.RECOVERING:
            marks = []
        else:
            marks = list(self.unreported_marks.items())
            self.unreported_marks.clear()
        if not self.is_active:
            # Events of other origins may still be missing.
            marks = [row for row in marks if log.flows.is_own(row[0])]
        if self.held_patterns:
            marks = [row for row in marks if pattern_of(row[0]) not in self.held_patterns]
        moved = [row for row in marks if self.reported_marks.get(row[0], (0, 0)) < row[1]]
        self.reported_marks.update(moved)
        return tuple((origin, *mark) for origin, mark in moved)

    def count_filtered(self, end: int) -> None:
        """Count live events before `end`: those not counted otherwise were filtered."""
        if self.state is not FeedState.LIVE:
            return
        passed = max(0, end - self.uncounted_from)
        self.uncounted_from = max(self.uncounted_from, end)
        self.outcomes.seen += passed
        self.outcomes.filtered += passed

    def count_elsewhere(self, unlogged: int) -> None:
        """Count places without a logged event, of `unlogged` ones of the log."""
        # The places of a slow flow count as unlogged until its events arrive.
        self.outcomes.elsewhere = max(0, unlogged - self.elsewhere_at_start)

    def roll_back(self, serial: int) -> None:
        """Take back the serials of a failed commit, which will be assigned again."""
        self.uncounted_from = min(self.uncounted_from, serial)
        self.cursor = min(self.cursor, serial)
        self.cut = min(self.cut, serial - 1)
        self.notices = [
            attrs.evolve(each, serial=min(each.serial, serial)) for each in self.notices
        ]
