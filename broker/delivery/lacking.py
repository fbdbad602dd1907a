"""What subscriptions of one link lack and their log will not bring: others have it, or it is a gap.

Retention took it, here or at its origin; or it lies before where this node begins with an origin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from broker.delivery.backlog import Backlog
from broker.delivery.feed import Feed, Gone, Pace
from broker.delivery.recovery import MarkRange, Recovering
from broker.delivery.sending import Outlet
from broker.event.place import Mark
from broker.log.event_log import EventLog
from broker.wire.messages import Gap

_NOWHERE: Mark = (0, 0)


class Lacking:
    """Recovers it, where somebody can be asked, and else tells it."""

    def __init__(
        self,
        feeds: Mapping[int, Feed],
        outlet: Outlet,
        log: EventLog,
        backlog: Backlog,
        recover: Callable[[Feed, Recovering, Mapping[str, Mark]], object],
    ) -> None:
        """`feeds` are all that the link has at any time, and `backlog` is what waits for them.
        `recover` feeds one with what is recovered, and then with its log, behind these marks."""
        self._feeds = feeds
        self._outlet = outlet
        self._log = log
        self._backlog = backlog
        self._recover = recover

    def overtaken(self, feed: Feed) -> bool:
        """Retention was faster than a subscription that is behind: all up to now is recovered, if
        that can be, so that it is not overtaken again at once."""
        return self._recover_again(feed, self._log.end_position(), "retention", archived=True)

    def _recover_again(
        self, feed: Feed, upto: Mapping[str, Mark], reason: str, *, archived: bool
    ) -> bool:
        """A subscription lacks something that its log will not bring: all of these origins is
        recovered, if that can be; what is not found is told as a gap for this reason. `archived`:
        only an archive may have it."""
        if feed.recover is None:
            return False
        # Of an origin that its client does not know one that goes on wants all.
        begun = {**({} if feed.goes_on else feed.flows_from), **feed.told}
        for origin, mark in feed.passed.items():
            begun[origin] = max(mark, begun.get(origin, mark))
        ranges: dict[str, MarkRange] = {
            origin: (begun.get(origin, _NOWHERE), mark)
            for origin, mark in upto.items()
            if begun.get(origin, _NOWHERE)[1] < mark[1]
        }
        recovering = feed.recover(ranges, reason, archived)
        if recovering is None:
            return False
        feed.settle(self._log.bounds.last + 1)
        feed.passed.clear()
        # What waits for it was not sent: it comes again.
        self._backlog.drop_for(feed)
        joins = {**begun, **{origin: upto[origin] for origin in ranges}}
        self._recover(feed, recovering, joins)
        return True

    def tell_meanwhile(self, feed: Feed) -> None:
        """A subscription is fed now: it is told what was gone before."""
        gone, feed.gone_meanwhile = feed.gone_meanwhile, {}
        for each in gone.values():
            self._gone(feed, each)

    def gone(self, origin: str, after: Mark, last: Mark, reason: str) -> None:
        """What lies behind `after` and up to `last` does not come here: every subscription that
        has not got so far is told."""
        for feed in self._feeds.values():
            self._gone(feed, Gone(origin, after, last, reason))

    def _gone(self, feed: Feed, gone: Gone) -> None:
        if feed.pace in (Pace.UNCONFIRMED, Pace.RECOVERING):
            feed.gone(gone)
        else:
            self._tell_gone(feed, gone)

    def _tell_gone(self, feed: Feed, gone: Gone) -> None:
        waits = self._backlog.is_owed
        told = feed.told.get(gone.origin, _NOWHERE)
        if not feed.goes_on or told == _NOWHERE:
            told = max(told, feed.flows_from.get(gone.origin, _NOWHERE))
        # For what lies before where the node begins it has not waited, if it has had nothing of it.
        begins = gone.after == _NOWHERE and gone.reason == "lost"
        waited = told > _NOWHERE or not begins
        lacks = waited and told[1] < gone.last[1]
        if not (lacks and feed.accepted and feed.flowing):
            return
        if told == _NOWHERE:
            told = feed.told[gone.origin] = gone.after
        upto = {gone.origin: max(gone.last, self._log.coverage[gone.origin])}
        if self._recover_again(feed, upto, gone.reason, archived=not begins):
            return
        if feed.pace is Pace.LIVE and not waits:
            told = max(told, gone.after)
        # One that has not got to the gap yet is told a wider one: where a client was told of a
        # gap, it begins behind it, if its session breaks now.
        self.tell_gap(feed, gone.origin, told, gone.last, gone.reason)

    def tell_gap(self, feed: Feed, origin: str, after: Mark, last: Mark, reason: str) -> None:
        """What lies behind `after` and up to `last` may be missing, and does not come any more."""
        feed.told[origin] = max(last, feed.told.get(origin, _NOWHERE))
        first = (max(after[0], 1), after[1] + 1)
        count = last[1] - after[1]
        if reason == "retention":
            feed.outcomes.gone += count
        self._outlet.send_message(Gap(feed.number, origin, first, last, count, reason))
