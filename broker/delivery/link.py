"""The output component's end of one client session (DCP D21, DESIGN 4, 5).

A link writes once per batch. Commits go straight out while the session can take them. When it can
not, each subscription follows its stated rule: a durable one falls behind and is fed from the log
at its own cursor; a transient one's events wait in one bounded queue, from which the oldest are
dropped, counted, and told. So a slow subscriber costs bounded memory and delays nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from twisted.python.failure import Failure

from broker.delivery.backlog import Backlog
from broker.delivery.catching_up import CatchingUp, Select
from broker.delivery.feed import Feed, Pace
from broker.delivery.lacking import Lacking
from broker.delivery.outgoing import (
    Encodings,
    Portion,
    QueueLimits,
    Run,
    Share,
    runs_of,
    take_runs,
)
from broker.delivery.pacing import Pacing
from broker.delivery.recovering import RecoveringFeeds
from broker.delivery.recovery import Lost, Recovering
from broker.delivery.sending import Outlet, Sending
from broker.event.envelope import Liveness
from broker.event.place import Mark
from broker.ingest.late_judgement import LateJudgement
from broker.log.event_log import EventLog
from broker.log.logged_event import LoggedEvent
from broker.subscriptions.beginning import serial_behind
from broker.transport.clock import IClock
from broker.wire.event_batch import encode_events
from broker.wire.codec import WirePosition, WireTimes
from broker.wire.messages import Gap, Progress


class Link:
    """Feeds the subscriptions of one session."""

    def __init__(
        self,
        outlet: Outlet,
        *,
        clearance: int,
        limits: QueueLimits,
        log: EventLog,
        select: Select,
        failed: Callable[[Feed, Failure], None],
        clock: IClock,
        late: LateJudgement | None = None,
    ) -> None:
        """`clearance` is a rank; `select` says which documents match a matcher's number; `failed`
        is told when a subscription can not be fed from the log, or with what is recovered."""
        self._outlet = outlet
        self._clearance = clearance
        self._limits = limits
        self._log = log
        self._feeds: dict[int, Feed] = {}
        self._backlog = Backlog(limits)
        self._sending = Sending(outlet)
        self._lacking = Lacking(self._feeds, outlet, log, self._backlog, self._recover_now)
        self._catching_up = CatchingUp(
            self._feeds,
            self._sending,
            clearance=clearance,
            delivery=limits.delivery,
            log=log,
            select=select,
            overtaken=self._lacking.overtaken,
            failed=failed,
            wait=lambda: self.on_wait(self),
            late=late,
        )
        self._recovering = RecoveringFeeds(
            *(self._feeds, self._sending),
            delivery=limits.delivery,
            clock=clock,
            tell_lost=self._tell_lost,
            recovered=self._recovered,
            failed=failed,
        )
        self.closed = False
        self.on_wait: Callable[[Link], object] = lambda _: None
        """Called when a subscription waits for the next commit: `committed` is to be called."""

    # ------------------------------------------------------------------ subscriptions

    @property
    def feeds(self) -> Collection[Feed]:
        """The link's subscriptions; how many they are is known without going through them."""
        return self._feeds.values()

    @property
    def queued(self) -> tuple[int, int]:
        """Events and bytes that wait for a transient subscriber."""
        return len(self._backlog), self._backlog.bytes

    def waiting_for(self, feed: Feed) -> int:
        """How many of the queued events are for this subscription."""
        return self._backlog.waiting_for(feed)

    def add(self, feed: Feed) -> None:
        """Take a subscription; nothing is sent for it before `start`."""
        self._feeds[feed.number] = feed

    def start(self, number: int) -> None:
        """Begin to feed a subscription from its cursor on: it was told that it is accepted."""
        feed = self._feeds[number]
        feed.pace = Pace.CATCHING_UP
        self._lacking.tell_meanwhile(feed)
        if feed.pace is not Pace.CATCHING_UP:
            return
        newest = feed.cursor > feed.given[1] and self._log.bounds.last <= feed.given[1]
        behind = self._catching_up.is_ahead(feed) or self._catching_up.has_loss(feed)
        if newest and not feed.paused and not behind:
            # It wants nothing older than what is to come: live at once, without a look at the
            # log. Events of a commit under way are not for it; the matcher did not know it.
            feed.go_live(feed.cursor)
        else:
            self._catching_up.begin(feed)

    def tell_losses(self) -> None:
        """Own events were lost (`broker.log.history`): those at the log's end are told now,
        others when they get there."""
        for feed in self._feeds.values():
            if feed.pace is Pace.LIVE:
                self._catching_up.tell_losses(feed)

    def recover(
        self,
        feed: Feed,
        recovering: Recovering,
        joins: Mapping[str, Mark],
        pacing: Pacing,
        end: Callable[[], object] | None,
    ) -> None:
        """Feed a subscription with what is recovered, then from its log, behind `joins`; or, with
        `end`, no further."""
        self._recovering.begin(feed, recovering, joins, pacing, end)

    def pause(self, number: int, paused: bool) -> None:
        """Hold a durable subscription, or let it go on from where it is."""
        feed = self._feeds[number]
        feed.paused = paused
        if paused and feed.pace is Pace.LIVE:
            # All that is committed was handed out.
            feed.fall_behind(self._log.bounds.last + 1)
        elif not paused:
            self.pump()

    def _recover_now(self, feed: Feed, recovering: Recovering, joins: Mapping[str, Mark]) -> None:
        self.recover(feed, recovering, joins, Pacing(0.0, 0.0), None)

    def _tell_lost(self, feed: Feed, lost: Lost) -> None:
        self._lacking.tell_gap(feed, lost.origin, lost.after, lost.upto, lost.reason)

    def _recovered(self, feed: Feed, joins: Mapping[str, Mark]) -> None:
        feed.skip = dict(joins)
        feed.cursor = serial_behind(self._log, joins)
        feed.pace = Pace.CATCHING_UP
        # All up to there was looked at where it was recovered: the client's position moves there.
        moved = tuple(
            (origin, *mark) for origin, mark in joins.items() if feed.told.get(origin) != mark
        )
        feed.told.update(joins)
        if moved:
            self._outlet.send_message(Progress(((feed.number, moved),)))
        self._lacking.tell_meanwhile(feed)
        if feed.pace is Pace.CATCHING_UP:
            self._catching_up.begin(feed)

    def remove(self, number: int) -> Feed | None:
        """Stop feeding a subscription; what waits for it alone is dropped."""
        feed = self._feeds.pop(number, None)
        if feed is not None:
            feed.settle(self._log.bounds.last + 1)
            feed.outcomes.elsewhere = self._log.unlogged_places - feed.elsewhere_before
            self._backlog.drop_for(feed)
            self._recovering.pump()
        return feed

    def get(self, number: int) -> Feed | None:
        """The subscription with the client's number."""
        return self._feeds.get(number)

    def close(self) -> None:
        """The session is over."""
        self.closed = True
        self._recovering.pump()
        self._backlog.drop_all()
        for number in list(self._feeds):
            self.remove(number)

    # ------------------------------------------------------------------ live

    def deliver(self, share: Share, shared: Encodings) -> None:
        """Events of a commit, in order; other links may get the same."""
        events, runs = share.events, share.runs
        if self._backlog.is_owed:
            self._enqueue(events, runs)
            return
        done = 0
        for portion in shared.portions(self._limits.delivery, events):
            if not self._outlet.writable:
                self._enqueue(events[done:], runs)
                return
            count = len(portion.events)
            mine = list(runs) if count == len(events) else take_runs(runs, count)
            self._send_live(portion, mine, shared)
            done += count

    def _send_live(self, portion: Portion, runs: list[Run], shared: Encodings) -> None:
        events = portion.events
        live: list[Run] = []
        whole = portion.level <= self._clearance
        for count, feeds in runs:
            feeds = self._live(feeds, count)
            live.append((count, feeds))
            whole = whole and bool(feeds)
        if whole:
            encoded = portion.encoded or shared.whole(portion)
            self._sending.send(encoded, events, live, Liveness.LIVE)
            return
        picked = []
        concerned = []
        start = 0
        for count, feeds in live:
            for event in events[start : start + count] if feeds else ():
                if event.level <= self._clearance:
                    picked.append(event)
                    concerned.append(feeds)
                else:
                    _deny(feeds)
            start += count
        if picked:
            self._sending.send(shared.picked(picked), picked, runs_of(concerned), Liveness.LIVE)

    def _live(self, feeds: Sequence[Feed], count: int) -> list[Feed]:
        """Return the feeds that get `count` events live, and count these as not filtered."""
        live = []
        for feed in feeds:
            if feed.pace is Pace.LIVE:
                feed.outcomes.filtered -= count
                live.append(feed)
        return live

    def _enqueue(self, events: list[LoggedEvent], runs: Iterable[Run]) -> None:
        """The session can not take more now: each subscription by its rule."""
        if self.closed:
            return
        start = 0
        for count, feeds in runs:
            for feed in feeds:
                if feed.durable and feed.pace is Pace.LIVE:
                    feed.fall_behind(events[start].serial)
            live = self._live(feeds, count)
            for event in events[start : start + count] if live else ():
                if event.level <= self._clearance:
                    self._backlog.add(event, live)
                else:
                    _deny(live)
            start += count
        self._backlog.keep_to_limits()

    def reconsider(self, serial: int, streams: Collection[str]) -> None:
        """Live subscriptions to these streams read the log from `serial` on."""
        for feed in list(self._feeds.values()):
            pattern = feed.pattern
            if feed.pace is Pace.LIVE and any(
                not stream or pattern is None or pattern.matches(stream) for stream in streams
            ):
                # What waits for it is read again, in its order.
                waiting = self._backlog.take_back(feed)
                feed.fall_behind(serial)
                if waiting:
                    feed.outcomes.seen -= len(waiting)
                    feed.cursor = min(serial, waiting[0].serial)
                self._catching_up.read_on(feed)

    # ------------------------------------------------------------------ when there is room again

    def pump(self) -> None:
        """Send what waits, as far as the session takes it."""
        if self.closed:
            return
        if self._backlog.untold and self._outlet.writable:
            self._tell_dropped()
        while self._backlog and self._outlet.writable:
            taken = self._backlog.take()
            events = [one.event for one in taken]
            encoded = encode_events(events)
            runs = runs_of(one.feeds for one in taken)
            self._sending.send(encoded, events, runs, Liveness.LIVE)
        self._recovering.pump()
        for feed in list(self._feeds.values()):
            if feed.pace is Pace.CATCHING_UP:
                self._catching_up.read_on(feed)

    def _tell_dropped(self) -> None:
        self._backlog.untold = False
        for feed in self._feeds.values():
            for origin, lost in feed.dropped.items():
                self._outlet.send_message(
                    Gap(
                        number=feed.number,
                        origin=origin,
                        first=lost.first,
                        last=lost.last,
                        count=lost.count,
                        reason="slow",
                    )
                )
            feed.dropped.clear()

    # ------------------------------------------------------------------ from the log

    def gone(self, origin: str, after: Mark, last: Mark, reason: str) -> None:
        """What lies behind `after` and up to `last` does not come by the log."""
        self._lacking.gone(origin, after, last, reason)

    def committed(self) -> None:
        """The log has grown: subscriptions that waited at its end look again."""
        for feed in list(self._feeds.values()):
            if feed.waiting_for_commit:
                feed.waiting_for_commit = False
                self._catching_up.read_on(feed)

    # ------------------------------------------------------------------ where it stands

    def begin_again(self, serial: int) -> None:
        """A failed commit took its serials back: `serial` will be given again."""
        for feed in self._feeds.values():
            feed.begin_again(serial)

    def settle(self) -> None:
        """Bring the counts of live subscriptions up to the log's end."""
        elsewhere = self._log.unlogged_places if self._feeds else 0
        for feed in self._feeds.values():
            feed.settle(self._log.bounds.last + 1)
            feed.outcomes.elsewhere = elsewhere - feed.elsewhere_before

    def progress(self, times: WireTimes = ()) -> None:
        """Send positions that moved without a delivery, so that a rare query pins nothing.

        `times` are the stream times of all origins, for subscriptions that asked for them.
        """
        if self._backlog.is_owed or not self._outlet.writable:
            return
        rows = [
            (feed.number, moved) for feed in self._feeds.values() if (moved := self._moved(feed))
        ]
        if rows:
            self._outlet.send_message(Progress(tuple(rows)))
        if times:
            # One message each: a message is bounded, and so are the times of one subscription.
            for feed in self._feeds.values():
                if _is_up(feed):
                    self._outlet.send_message(Progress((), ((feed.number, times),)))

    def _moved(self, feed: Feed) -> WirePosition:
        """How far a subscription has got where its client does not know it yet."""
        if feed.pace is Pace.LIVE:
            feed.settle(self._log.bounds.last + 1)
            coverage = self._log.coverage
            marks = coverage.changed_since(feed.told_version)
            if feed.flowing:
                feed.told_version = coverage.version
        elif feed.pace is Pace.RECOVERING:
            marks = []
        else:
            marks = list(feed.passed.items())
            feed.passed.clear()
        if not feed.flowing:
            # Something may be missed yet of other origins.
            marks = [row for row in marks if row[0] == self._log.origin]
        moved = [row for row in marks if feed.told.get(row[0], (0, 0)) < row[1]]
        feed.told.update(moved)
        return tuple((origin, *mark) for origin, mark in moved)


def _is_up(feed: Feed) -> bool:
    """Return whether all committed events that match have been sent."""
    return feed.times and feed.flowing and feed.pace is Pace.LIVE


def _deny(feeds: Sequence[Feed]) -> None:
    """An event matched, and the client is not cleared for it."""
    for feed in feeds:
        feed.outcomes.denied += 1
