"""One subscription on its way: asked for, wanted of others, accepted, flowing, and fed.

It is told that it is accepted when it is stored, if it is durable; that it flows when all nodes
that matter know of it. What its client missed before that, and the own log has not, is recovered
first. A durable one that was at another node comes in the order of P11: others are told what is
wanted, the subscription is cancelled there, and what waits for it there is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import attrs
from twisted.logger import Logger
from twisted.python.failure import Failure

from broker.delivery.feed import Feed
from broker.delivery.pacing import Pacing
from broker.delivery.recovery import Former, MarkRange, Missed, Recovering, Recovery, Roamer
from broker.delivery.seam import Seam, at_cut, at_retention, open_ended, up_to, whole_past
from broker.errors import BrokerError, NotConnected, PeerError
from broker.event.place import Mark, Position, common_position, merge_positions
from broker.log.event_log import EventLog
from broker.subscriptions.beginning import (
    Beginning,
    check_position,
    flowing_from,
    lost_branches,
    serial_behind,
    set_back,
)
from broker.subscriptions.durables import Durable, Durables
from broker.subscriptions.interest import Interest
from broker.subscriptions.profile import Profile
from broker.wire.messages import Flowing, Subscribe, Subscribed

#: Starts that go on from where the client, or what is stored of it, has got to.
_GOES_ON = ("position", "stored")
#: Starts that begin in the past, wherever the client has got to.
_PAST = ("all", "time", "last")


@attrs.frozen
class Confirming:
    """Where what becomes of a subscription is told."""

    tell: Callable[[Subscribed | Flowing], object]
    start: Callable[[], object]
    """It was told that it is accepted: it may be fed."""
    end: Callable[[BrokerError | None], object] = lambda _: None
    """It is over, before its client has asked for that."""
    is_connected: Callable[[], bool] = lambda: True
    """Whether the session has a connection."""


@attrs.frozen
class Surroundings:
    """What a subscription on its way deals with."""

    log: EventLog
    durables: Durables
    interest: Interest
    recovery: Recovery
    came_back: Callable[[Feed, int | None], object] = lambda *_: None
    """See `Subscribing`."""


class Taking:
    """Follows one subscription until it is fed."""

    log = Logger()

    def __init__(
        self,
        around: Surroundings,
        profile: Profile,
        wanted: Subscribe,
        confirming: Confirming,
        *,
        feed: Feed,
        stored: Durable | None,
        begins: Beginning,
        warnings: tuple[str, ...],
    ) -> None:
        """`stored` is what is known here of a durable one; `begins` where it begins in the log."""
        self._around = around
        self._profile = profile
        self._wanted = wanted
        self._confirming = confirming
        self._feed = feed
        self._stored = stored
        self._begins = begins
        self._warnings = warnings
        self._own_cut = around.log.own_end
        self._told_flowing = self._fed = False
        self._former = "" if stored is None else stored.former
        self._left_off = None if stored is None else stored.position
        self._key: Hashable = feed.matcher_number
        if wanted.durable:
            self._key = (profile.identity.client_id, wanted.durable)
        known = wanted.start == "position" or bool(wanted.position) or stored is not None
        self._resumes = wanted.start in _GOES_ON and known
        self._wanted_all_the_time = False

    # ------------------------------------------------------------------ on its way

    def begin(self) -> None:
        """Let other nodes know what is wanted, and go on from there."""
        feed, wanted, around = self._feed, self._wanted, self._around
        assert feed.pattern is not None and feed.query is not None
        feed.flowing = False
        feed.begins = {} if self._begins_in_past() else self._begins.position
        feed.paused = self._stored is not None and self._stored.paused
        was_wanted = around.interest.is_wanted(self._key, feed.pattern, feed.query)
        self._wanted_all_the_time = was_wanted
        feed.goes_on = was_wanted and self._resumes
        if wanted.durable:
            self._profile.durable[wanted.number] = wanted.durable
        if not was_wanted:
            # Something else may have been wanted under the name of a durable one.
            around.interest.unwant(self._key)
        roams = self._roams()
        position = {} if roams else self._begins.position
        goes_on = position if self._resumes else None
        around.interest.want(self._key, feed.pattern, feed.query, self._flows, goes_on)
        if not roams:
            self._store()

    def _roams(self) -> bool:
        """Whether another node may have it: then its position is not known before that is asked.

        Where this node has it, and its client does not know how far it has got, it may have gone on
        at another node while this one was away."""
        knows = bool(self._wanted.position) or self._wanted.start == "position"
        goes_on = bool(self._wanted.durable) and self._wanted.start in _GOES_ON
        return goes_on and not (knows and self._is_stored_here())

    def _is_stored_here(self) -> bool:
        return self._stored is not None and not self._stored.moved_to

    def _flows(self, cuts: Mapping[str, Mark]) -> None:
        feed, log = self._feed, self._around.log
        if feed.flowing:
            return
        feed.flowing = True
        feed.flows_from = flowing_from(log, self._own_cut, cuts)
        if self._roams():
            self._take_over()
            return
        if self._wanted.durable and not self._is_complete_here():
            self._around.durables.flows(*self._name(), Position(feed.flows_from))
        self._go_on()

    def _take_over(self) -> None:
        profile, wanted = self._profile, self._wanted
        former = wanted.previous_address
        if self._stored is not None and self._stored.moved_to:
            former = self._stored.moved_to
        roamer = Roamer(
            *(*self._name(), profile.incarnation, profile.token, former),
            knows_position=bool(wanted.position),
            stored_here=self._is_stored_here(),
            is_open=self._is_open,
            is_connected=self._confirming.is_connected,
        )
        taken = self._around.recovery.take_over(roamer)
        taken.addCallbacks(self._taken_over, self._not_taken_over)

    def _not_taken_over(self, failure: Failure) -> None:
        """Another process of the client is where it is, or nobody can say how far it has got: as a
        new one it would miss events in silence."""
        error = failure.value
        if not isinstance(error, BrokerError):
            self.log.failure("taking over a subscription failed", failure)
            error = NotConnected("where the subscription was could not be asked")
        if self._is_open():
            self._confirming.end(error)

    def _taken_over(self, former: Former | None) -> None:
        if not self._is_open():
            return
        feed, log = self._feed, self._around.log
        if former is not None and former.warning:
            self._warnings += (former.warning,)
        position = merge_positions(
            None if former is None else former.position,
            self._left_off,
            Position.from_wire(self._wanted.position) if self._wanted.position else None,
        )
        if position is None:
            position, self._resumes = Position(feed.flows_from), False
        else:
            self._left_off = position
            self._resumes = True
        try:
            check_position(log, position)
        except PeerError as error:
            self._confirming.end(error)
            return
        self._former = "" if former is None else former.address
        self._begins = Beginning(
            serial_behind(log, position.marks), position.marks, dict(position.marks)
        )
        feed.told, feed.skip = dict(position.marks), dict(position.marks)
        feed.begins = position.marks
        feed.cursor = self._begins.serial
        self._around.interest.goes_on(self._key, position.marks)
        self._store()

    def _store(self) -> None:
        wanted = self._wanted
        if not wanted.durable:
            self._accepted()
            return
        position = Position(self._begins.position)
        if wanted.start == "position":
            # A client that comes back begins behind what it has received. Only what it has
            # acknowledged is processed: if it dies now, the rest has to be sent again.
            if self._left_off is not None:
                position = common_position(self._left_off, position)
            if wanted.processed is not None:
                position = common_position(Position.from_wire(wanted.processed), position)
        flows_from = None
        if self._is_complete_here():
            flows_from = None if self._stored is None else self._stored.flows_from
        elif self._feed.flowing:
            flows_from = Position(self._feed.flows_from)
        self._around.durables.put(
            *self._name(),
            pattern=wanted.pattern,
            query=wanted.query,
            namespaces=wanted.namespaces,
            position=position,
            stored=self._accepted,
            flows_from=flows_from,
            former=self._former,
        )

    def _accepted(self) -> None:
        if not self._is_open():
            return
        left_off = None if self._left_off is None else self._left_off.to_wire()
        self._confirming.tell(Subscribed(self._feed.number, left_off, self._warnings))
        self._feed.accepted = True
        if self._resumes:
            stored = self._stored
            away = stored is not None and not stored.moved_to
            self._around.came_back(self._feed, stored.used if stored and away else None)
        self._go_on()

    def _go_on(self) -> None:
        """Tell that it flows, and feed it, as far as that can be now."""
        feed = self._feed
        if not feed.accepted or not self._is_open():
            return
        if feed.flowing and not self._told_flowing:
            self._told_flowing = True
            self._confirming.tell(Flowing(feed.number, Position(feed.flows_from).to_wire()))
        if not self._fed and (feed.flowing or not self._waits()):
            self._fed = True
            self._begin_to_feed()

    # ------------------------------------------------------------------ the seam

    def _waits(self) -> bool:
        """Whether it is not fed before it flows, for only then it is known what is missing."""
        lacks = not self._is_complete_here() or self._is_bounded()
        return self._begins_in_past() or (self._resumes and lacks)

    def _begins_in_past(self) -> bool:
        """Whether it begins before its client was there, and not where the own log does."""
        wanted, recovery = self._wanted, self._around.recovery
        return wanted.start == "last" or (
            wanted.start in _PAST and (recovery.has_past or self._is_bounded())
        )

    def _is_bounded(self) -> bool:
        return bool(self._wanted.until_ms or self._wanted.until)

    def _is_complete_here(self) -> bool:
        """Whether the log has had all of it since it is known to flow."""
        if not self._wanted_all_the_time:
            return False
        stored = self._stored
        return not self._wanted.durable or (stored is not None and stored.flows_from is not None)

    def _begin_to_feed(self) -> None:
        """Recover what the log has not, then go on with the log."""
        recovery, link = self._around.recovery, self._profile.link
        seam = self._seam()
        missed = self._missed(seam)
        if not self._is_bounded():
            self._feed.recover = self._recover
        branches = missed.lost_branches
        wants = bool(missed.ranges or missed.others or self._is_bounded() or branches)
        if not wants:
            self._confirming.start()
            return
        pacing = Pacing(self._wanted.pace, self._wanted.rate)
        end = self._end if self._is_bounded() else None
        link.recover(self._feed, recovery.begin(missed), seam.joins, pacing, end)

    def _seam(self) -> Seam:
        feed, log = self._feed, self._around.log
        if self._begins_in_past():
            return self._opened(whole_past(feed.flows_from), {})
        if not self._resumes:
            return Seam({}, {})
        position = set_back(log, self._begins.position)
        if self._is_bounded():
            # The log feeds nothing behind the end: all of it is recovered, this node's own too.
            return self._opened(at_cut(position, feed.flows_from, "", {}), position)
        behind = log.end_position()
        if self._is_complete_here() and self._is_too_much(position, behind):
            return at_cut(position, behind, "", {})
        if not self._is_complete_here():
            seam = at_cut(position, feed.flows_from, log.origin, log.begins_after)
            return self._opened(seam, position)
        complete: dict[str, Mark] = {}
        if self._stored is not None and self._stored.flows_from is not None:
            complete = dict(self._stored.flows_from.marks)
            complete.pop(log.origin, None)
        # An origin of which nothing is known here: this node's own of before it lost its log, say.
        unknown = [o for o in position if o not in log.coverage]
        gone = [o for o in unknown if self._around.recovery.is_gone(o)]
        return open_ended(at_retention(position, complete, log.begins_after), position, gone)

    def _opened(self, seam: Seam, position: Mapping[str, Mark]) -> Seam:
        origins = {*self._feed.flows_from, *position}
        gone = [origin for origin in origins if self._around.recovery.is_gone(origin)]
        return open_ended(seam, position, gone)

    def _is_too_much(self, position: Mapping[str, Mark], upto: Mapping[str, Mark]) -> bool:
        """Whether the log has so much for it that the archive is better asked."""
        places = sum(max(0, mark[1] - position.get(o, (0, 0))[1]) for o, mark in upto.items())
        return self._around.recovery.is_too_much_for_log(places)

    def _missed(self, seam: Seam) -> Missed:
        feed, wanted = self._feed, self._wanted
        assert feed.pattern is not None and feed.query is not None
        ranges = seam.ranges
        position = set_back(self._around.log, self._begins.position)
        in_past = self._begins_in_past()
        if wanted.until:
            until = Position.from_wire(wanted.until).marks
            ranges = up_to(ranges, until, {} if in_past else position)
        wholly = in_past or (wanted.start == "position" and self._is_bounded())
        if wholly:
            # Of an origin that is named not all is wanted, even where nothing is left of it.
            named = {origin: (mark, mark) for origin, mark in position.items()}
            ranges = {**({} if in_past else named), **ranges}
        begun = {} if in_past else self._begins.position
        origins = () if self._is_complete_here() else feed.flows_from
        return Missed(
            pattern=feed.pattern,
            query=feed.query,
            clearance=self._profile.identity.clearance.rank,
            ranges=ranges,
            known={o: mark for o, mark in feed.flows_from.items() if o in ranges},
            others=wholly and not wanted.until,
            open_ended=not self._is_bounded() and not self._is_complete_here(),
            # A client that began at a time and goes on has a position, too.
            from_ms=wanted.time if wanted.start in ("time", "position") else 0,
            until_ms=wanted.until_ms,
            last=wanted.last if wanted.start == "last" else 0,
            number=wanted.number,
            client_id=self._profile.identity.client_id,
            name=wanted.durable,
            former=self._former,
            position=begun,
            lost_branches=lost_branches(self._around.log, origins, begun),
            # What was wanted here all the time was in the log, until retention took it.
            lack="retention" if self._is_complete_here() else "lost",
        )

    def _recover(
        self, ranges: Mapping[str, MarkRange], lack: str, archived: bool
    ) -> Recovering | None:
        """Begin to recover what the log had, until it was taken; or has never had. `archived`: only
        an archive may have it."""
        if archived and not self._around.recovery.has_past:
            return None
        of_log: dict[str, Any] = {"known": {}, "others": False, "open_ended": False, "last": 0}
        of_log |= {"former": "", "lost_branches": {}}
        missed = self._missed(Seam({}, {}))
        missed = attrs.evolve(missed, ranges=ranges, lack=lack, **of_log)
        return self._around.recovery.begin(missed)

    # ------------------------------------------------------------------ inside

    def _end(self) -> None:
        if self._is_open():
            self._confirming.end(None)

    def _is_open(self) -> bool:
        return self._profile.link.get(self._feed.number) is self._feed

    def _name(self) -> tuple[str, str]:
        return self._profile.identity.client_id, self._wanted.durable
