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
from broker.delivery.recovery_contract import (
    ActiveRecovery,
    HandoverRequest,
    HandoverResult,
    MarkRange,
    RecoveryRequest,
    RecoveryService,
)
from broker.delivery.splice import (
    Splice,
    limit_ranges,
    open_ranges,
    splice_at_cut,
    splice_at_retention,
    splice_whole_past,
)
from broker.errors import BrokerError, NotConnected, PeerError
from broker.event.place import Mark, Position, common_position, merge_positions
from broker.log.event_log import EventLog
from broker.subscriptions.durable_subscriptions import DurableSubscription, DurableSubscriptions
from broker.subscriptions.interest import Interest
from broker.subscriptions.profile import Profile
from broker.subscriptions.start_position import (
    StartPosition,
    check_position,
    find_active_from,
    find_lost_branches,
    first_serial_after,
    rewind_lost_branches,
)
from broker.wire.messages import Flowing, Subscribe, Subscribed

#: Starts that go on from where the client, or what is stored of it, has got to.
_RESUMING_STARTS = ("position", "stored")
#: Starts that begin in the past, wherever the client has got to.
_PAST_STARTS = ("all", "time", "last")


@attrs.frozen
class SubscriptionCallbacks:
    """Where what becomes of a subscription is told."""

    send_message: Callable[[Subscribed | Flowing], object]
    start_feed: Callable[[], object]
    """It was told that it is accepted: it may be fed."""
    end_subscription: Callable[[BrokerError | None], object] = lambda _: None
    """It is over, before its client has asked for that."""
    is_connected: Callable[[], bool] = lambda: True
    """Whether the session has a connection."""


@attrs.frozen
class SubscriptionContext:
    """What a subscription on its way deals with."""

    log: EventLog
    durables: DurableSubscriptions
    interest: Interest
    recovery: RecoveryService
    on_resumed: Callable[[Feed, int | None], object] = lambda *_: None
    """See `SubscriptionRequests`."""


class SubscriptionLifecycle:
    """Follows one subscription until it is fed."""

    log = Logger()

    def __init__(
        self,
        context: SubscriptionContext,
        profile: Profile,
        request: Subscribe,
        callbacks: SubscriptionCallbacks,
        *,
        feed: Feed,
        stored: DurableSubscription | None,
        start: StartPosition,
        warnings: tuple[str, ...],
    ) -> None:
        """`stored` is what is known here of a durable one; `begins` where it begins in the log."""
        self._context = context
        self._profile = profile
        self._request = request
        self._callbacks = callbacks
        self._feed = feed
        self._stored = stored
        self._start = start
        self._warnings = warnings
        self._own_cut = context.log.own_end
        self._has_sent_active = self._is_fed = False
        self._previous_address = "" if stored is None else stored.previous_address
        self._stored_position = None if stored is None else stored.position
        self._key: Hashable = feed.matcher_number
        if request.durable:
            self._key = (profile.identity.client_id, request.durable)
        known = request.start == "position" or bool(request.position) or stored is not None
        self._resumes = request.start in _RESUMING_STARTS and known
        self._was_announced = False

    # ------------------------------------------------------------------ on its way

    def announce(self) -> None:
        """Let other nodes know what is wanted, and go on from there."""
        feed, request, context = self._feed, self._request, self._context
        assert feed.pattern is not None and feed.query is not None
        feed.is_active = False
        feed.start_marks = {} if self._starts_in_past() else self._start.position
        feed.is_paused = self._stored is not None and self._stored.is_paused
        was_announced = context.interest.is_announced(self._key, feed.pattern, feed.query)
        self._was_announced = was_announced
        feed.is_continuous = was_announced and self._resumes
        if request.durable:
            self._profile.durable_names[request.number] = request.durable
        if not was_announced:
            # Something else may have been wanted under the name of a durable one.
            context.interest.withdraw(self._key)
        needs_handover = self._needs_handover()
        position = {} if needs_handover else self._start.position
        resume_position = position if self._resumes else None
        context.interest.announce(
            self._key, feed.pattern, feed.query, self._activate, resume_position
        )
        if not needs_handover:
            self._store_durable()

    def _needs_handover(self) -> bool:
        """Whether another node may have it: then its position is not known before that is asked.

        Where this node has it, and its client does not know how far it has got, it may have gone on
        at another node while this one was away."""
        knows = bool(self._request.position) or self._request.start == "position"
        resume_position = bool(self._request.durable) and self._request.start in _RESUMING_STARTS
        return resume_position and not (knows and self._is_stored_here())

    def _is_stored_here(self) -> bool:
        return self._stored is not None and not self._stored.moved_to

    def _activate(self, marks: Mapping[str, Mark]) -> None:
        feed, log = self._feed, self._context.log
        if feed.is_active:
            return
        feed.is_active = True
        feed.active_from = find_active_from(log, self._own_cut, marks)
        if self._needs_handover():
            self._request_handover()
            return
        if self._request.durable and not self._is_log_complete():
            self._context.durables.set_active_from(*self._durable_key(), Position(feed.active_from))
        self._advance()

    def _request_handover(self) -> None:
        profile, request = self._profile, self._request
        previous_address = request.previous_address
        if self._stored is not None and self._stored.moved_to:
            previous_address = self._stored.moved_to
        handover = HandoverRequest(
            *(*self._durable_key(), profile.incarnation, profile.token, previous_address),
            has_position=bool(request.position),
            is_stored_here=self._is_stored_here(),
            is_open=self._is_open,
            is_connected=self._callbacks.is_connected,
        )
        taken = self._context.recovery.take_over_durable(handover)
        taken.addCallbacks(self._finish_handover, self._fail_handover)

    def _fail_handover(self, failure: Failure) -> None:
        """Another process of the client is where it is, or nobody can say how far it has got: as a
        new one it would miss events in silence."""
        error = failure.value
        if not isinstance(error, BrokerError):
            self.log.failure("taking over a subscription failed", failure)
            error = NotConnected("where the subscription was could not be asked")
        if self._is_open():
            self._callbacks.end_subscription(error)

    def _finish_handover(self, result: HandoverResult | None) -> None:
        if not self._is_open():
            return
        feed, log = self._feed, self._context.log
        if result is not None and result.warning:
            self._warnings += (result.warning,)
        position = merge_positions(
            None if result is None else result.position,
            self._stored_position,
            Position.from_wire(self._request.position) if self._request.position else None,
        )
        if position is None:
            position, self._resumes = Position(feed.active_from), False
        else:
            self._stored_position = position
            self._resumes = True
        try:
            check_position(log, position)
        except PeerError as error:
            self._callbacks.end_subscription(error)
            return
        self._previous_address = "" if result is None else result.address
        self._start = StartPosition(
            first_serial_after(log, position.marks), position.marks, dict(position.marks)
        )
        feed.reported_marks, feed.skip_marks = dict(position.marks), dict(position.marks)
        feed.start_marks = position.marks
        feed.cursor = self._start.serial
        self._context.interest.set_resume_position(self._key, position.marks)
        self._store_durable()

    def _store_durable(self) -> None:
        request = self._request
        if not request.durable:
            self._accept()
            return
        position = Position(self._start.position)
        if request.start == "position":
            # A client that comes back begins behind what it has received. Only what it has
            # acknowledged is processed: if it dies now, the rest has to be sent again.
            if self._stored_position is not None:
                position = common_position(self._stored_position, position)
            if request.processed is not None:
                position = common_position(Position.from_wire(request.processed), position)
        active_from = None
        if self._is_log_complete():
            active_from = None if self._stored is None else self._stored.active_from
        elif self._feed.is_active:
            active_from = Position(self._feed.active_from)
        self._context.durables.store(
            *self._durable_key(),
            pattern=request.pattern,
            query=request.query,
            namespaces=request.namespaces,
            position=position,
            stored=self._accept,
            active_from=active_from,
            previous_address=self._previous_address,
        )

    def _accept(self) -> None:
        if not self._is_open():
            return
        left_off = None if self._stored_position is None else self._stored_position.to_wire()
        self._callbacks.send_message(Subscribed(self._feed.number, left_off, self._warnings))
        self._feed.is_accepted = True
        if self._resumes:
            stored = self._stored
            away = stored is not None and not stored.moved_to
            self._context.on_resumed(self._feed, stored.used_ms if stored and away else None)
        self._advance()

    def _advance(self) -> None:
        """Tell that it flows, and feed it, as far as that can be now."""
        feed = self._feed
        if not feed.is_accepted or not self._is_open():
            return
        if feed.is_active and not self._has_sent_active:
            self._has_sent_active = True
            self._callbacks.send_message(Flowing(feed.number, Position(feed.active_from).to_wire()))
        if not self._is_fed and (feed.is_active or not self._must_be_active()):
            self._is_fed = True
            self._start_feed()

    # ------------------------------------------------------------------ the seam

    def _must_be_active(self) -> bool:
        """Whether it is not fed before it flows, for only then it is known what is missing."""
        lacks = not self._is_log_complete() or self._is_bounded()
        return self._starts_in_past() or (self._resumes and lacks)

    def _starts_in_past(self) -> bool:
        """Whether it begins before its client was there, and not where the own log does."""
        request, recovery = self._request, self._context.recovery
        return request.start == "last" or (
            request.start in _PAST_STARTS and (recovery.has_archive or self._is_bounded())
        )

    def _is_bounded(self) -> bool:
        return bool(self._request.until_ms or self._request.until)

    def _is_log_complete(self) -> bool:
        """Whether the log has had all of it since it is known to flow."""
        if not self._was_announced:
            return False
        stored = self._stored
        return not self._request.durable or (stored is not None and stored.active_from is not None)

    def _start_feed(self) -> None:
        """Recover what the log has not, then go on with the log."""
        recovery, link = self._context.recovery, self._profile.delivery
        splice = self._find_splice()
        recovery_request = self._build_request(splice)
        if not self._is_bounded():
            self._feed.start_recovery = self._start_gap_recovery
        branches = recovery_request.lost_branches
        wants = bool(
            recovery_request.ranges
            or recovery_request.all_origins
            or self._is_bounded()
            or branches
        )
        if not wants:
            self._callbacks.start_feed()
            return
        pacing = Pacing(self._request.pace, self._request.rate)
        end = self._end_at_bound if self._is_bounded() else None
        link.feed_from_recovery(
            self._feed, recovery.start_recovery(recovery_request), splice.log_starts, pacing, end
        )

    def _find_splice(self) -> Splice:
        feed, log = self._feed, self._context.log
        if self._starts_in_past():
            return self._open_dead_origins(splice_whole_past(feed.active_from), {})
        if not self._resumes:
            return Splice({}, {})
        position = rewind_lost_branches(log, self._start.position)
        if self._is_bounded():
            # The log feeds nothing behind the end: all of it is recovered, this node's own too.
            return self._open_dead_origins(
                splice_at_cut(position, feed.active_from, "", {}), position
            )
        behind = log.end_position()
        if self._is_log_complete() and self._prefers_archive(position, behind):
            return splice_at_cut(position, behind, "", {})
        if not self._is_log_complete():
            splice = splice_at_cut(position, feed.active_from, log.origin, log.begins_after)
            return self._open_dead_origins(splice, position)
        complete: dict[str, Mark] = {}
        if self._stored is not None and self._stored.active_from is not None:
            complete = dict(self._stored.active_from.marks)
            complete.pop(log.origin, None)
        # An origin of which nothing is known here: this node's own of before it lost its log, say.
        unknown = [o for o in position if o not in log.coverage]
        gone = [o for o in unknown if self._context.recovery.is_archive_only(o)]
        return open_ranges(
            splice_at_retention(position, complete, log.begins_after), position, gone
        )

    def _open_dead_origins(self, splice: Splice, position: Mapping[str, Mark]) -> Splice:
        origins = {*self._feed.active_from, *position}
        gone = [origin for origin in origins if self._context.recovery.is_archive_only(origin)]
        return open_ranges(splice, position, gone)

    def _prefers_archive(self, position: Mapping[str, Mark], upto: Mapping[str, Mark]) -> bool:
        """Whether the log has so much for it that the archive is better asked."""
        places = sum(max(0, mark[1] - position.get(o, (0, 0))[1]) for o, mark in upto.items())
        return self._context.recovery.is_too_much_for_log(places)

    def _build_request(self, splice: Splice) -> RecoveryRequest:
        feed, request = self._feed, self._request
        assert feed.pattern is not None and feed.query is not None
        ranges = splice.ranges
        position = rewind_lost_branches(self._context.log, self._start.position)
        in_past = self._starts_in_past()
        if request.until:
            until = Position.from_wire(request.until).marks
            ranges = limit_ranges(ranges, until, {} if in_past else position)
        from_beginning = in_past or (request.start == "position" and self._is_bounded())
        if from_beginning:
            # Of an origin that is named not all is wanted, even where nothing is left of it.
            named = {origin: (mark, mark) for origin, mark in position.items()}
            ranges = {**({} if in_past else named), **ranges}
        position_had = {} if in_past else self._start.position
        origins = () if self._is_log_complete() else feed.active_from
        return RecoveryRequest(
            pattern=feed.pattern,
            query=feed.query,
            clearance=self._profile.identity.clearance.rank,
            ranges=ranges,
            known_ends={o: mark for o, mark in feed.active_from.items() if o in ranges},
            all_origins=from_beginning and not request.until,
            is_open_ended=not self._is_bounded() and not self._is_log_complete(),
            # A client that began at a time and goes on has a position, too.
            from_ms=request.time if request.start in ("time", "position") else 0,
            until_ms=request.until_ms,
            last=request.last if request.start == "last" else 0,
            number=request.number,
            client_id=self._profile.identity.client_id,
            durable_name=request.durable,
            previous_address=self._previous_address,
            position=position_had,
            lost_branches=find_lost_branches(self._context.log, origins, position_had),
            # What was wanted here all the time was in the log, until retention took it.
            gap_reason="retention" if self._is_log_complete() else "lost",
        )

    def _start_gap_recovery(
        self, ranges: Mapping[str, MarkRange], gap_reason: str, archived: bool
    ) -> ActiveRecovery | None:
        """Begin to recover what the log had, until it was taken; or has never had. `archived`: only
        an archive may have it."""
        if archived and not self._context.recovery.has_archive:
            return None
        log_fields: dict[str, Any] = {"known": {}, "others": False, "open_ended": False, "last": 0}
        log_fields |= {"former": "", "lost_branches": {}}
        recovery_request = self._build_request(Splice({}, {}))
        recovery_request = attrs.evolve(
            recovery_request, ranges=ranges, gap_reason=gap_reason, **log_fields
        )
        return self._context.recovery.start_recovery(recovery_request)

    # ------------------------------------------------------------------ inside

    def _end_at_bound(self) -> None:
        if self._is_open():
            self._callbacks.end_subscription(None)

    def _is_open(self) -> bool:
        return self._profile.delivery.find_feed(self._feed.number) is self._feed

    def _durable_key(self) -> tuple[str, str]:
        return self._profile.identity.client_id, self._request.durable
