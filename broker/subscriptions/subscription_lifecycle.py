"""Subscription lifecycle: requested, announced, accepted, active, fed.

A durable subscription is accepted after it is stored. A subscription is active when all relevant
nodes know it. Missed events are recovered before the log feeds it. A durable one from another node
moves in the order of P11: its interest is announced, the other node ends it, and missed events are
requested there.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
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
from broker.streams.queue_policy import BLOCK
from broker.subscriptions.durable_subscriptions import DurableSubscription
from broker.subscriptions.profile import Profile
from broker.subscriptions.start_position import (
    StartPosition,
    check_position,
    complete_position,
    find_active_from,
    find_lost_branches,
    first_serial_after,
    rewind_lost_branches,
)
from broker.subscriptions.subscription_context import SubscriptionCallbacks, SubscriptionContext
from broker.wire.messages import Flowing, Subscribe, Subscribed

#: At the client's position, or the stored one.
_RESUMING_STARTS = ("position", "stored")
#: They ignore the client's position.
_PAST_STARTS = ("all", "time", "last")
_ONE_LOG_WARNING = (
    "without an archive this subscription starts in its node's log, which has past events of other "
    "nodes only if subscriptions there needed them; a replay asks all nodes"
)


class SubscriptionLifecycle:
    log = Logger()

    def __init__(
        self,
        context: SubscriptionContext,
        profile: Profile,
        message: Subscribe,
        callbacks: SubscriptionCallbacks,
        *,
        feed: Feed,
        stored: DurableSubscription | None,
        start: StartPosition,
        warnings: tuple[str, ...],
    ) -> None:
        self._context = context
        self._profile = profile
        self._message = message
        self._callbacks = callbacks
        self._feed = feed
        self._stored = stored
        self._start = start
        self._warnings = warnings
        self._own_cut = context.log.own_cut()
        self._has_sent_active = self._is_fed = False
        self._previous_address = "" if stored is None else stored.previous_address
        self._stored_position = None if stored is None else stored.position
        self._key: Hashable = feed.matcher_number
        if message.durable:
            self._key = (profile.identity.client_id, message.durable)
        has_position = self._has_client_position or stored is not None
        self._resumes = message.start in _RESUMING_STARTS and has_position
        self._was_announced = False
        if message.start in _PAST_STARTS and context.recovery.has_network:
            self._warnings += () if self._starts_in_past() else (_ONE_LOG_WARNING,)

    # ------------------------------------------------------------------ announced to accepted

    def announce(self) -> None:
        """Announce the interest, and store a subscription that needs no handover."""
        feed, message, context = self._feed, self._message, self._context
        assert feed.pattern is not None and feed.query is not None
        feed.is_active = False
        feed.start_marks = {} if self._starts_in_past() else self._start.position
        feed.is_paused = self._stored is not None and self._stored.is_paused
        self._was_announced = context.interest.is_announced(self._key, feed.pattern, feed.query)
        feed.is_continuous = self._was_announced and self._resumes
        if message.durable:
            self._profile.durable_names[message.number] = message.durable
        if not self._was_announced:
            # A durable name may have had another query.
            context.interest.withdraw(self._key)
        needs_handover = self._needs_handover()
        position = {} if needs_handover else self._start.position
        resume_at = position if self._resumes else None
        context.interest.announce(self._key, feed.pattern, feed.query, self._activate, resume_at)
        # Earlier versions send all events to a subscription that names no policy.
        context.interest.set_queue_policy(self._key, feed.policy if message.queue else BLOCK)
        if not needs_handover:
            self._store_durable()

    def _needs_handover(self) -> bool:
        """Return whether another node must be asked first.

        Without a position the client may have progressed elsewhere while this node was down.
        """
        resumes = bool(self._message.durable) and self._message.start in _RESUMING_STARTS
        return resumes and not (self._has_client_position and self._is_stored_here())

    @property
    def _has_client_position(self) -> bool:
        """True also for a client that has received nothing."""
        return self._message.start == "position" or bool(self._message.position)

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
        if self._message.durable and not self._is_log_complete():
            self._context.durables.set_active_from(*self._durable_key(), Position(feed.active_from))
        self._advance()

    def _request_handover(self) -> None:
        profile, message = self._profile, self._message
        previous_address = message.previous_address
        if self._stored is not None and self._stored.moved_to:
            previous_address = self._stored.moved_to
        handover = HandoverRequest(
            *(*self._durable_key(), profile.incarnation, profile.token, previous_address),
            has_position=bool(message.position),
            account=self._context.durables.account_of(profile.identity),
            proof=message.claim,
            is_stored_here=self._is_stored_here(),
            is_open=self._is_open,
            is_connected=self._callbacks.is_connected,
        )
        taken_over = self._context.recovery.take_over_durable(handover)
        taken_over.addCallbacks(self._finish_handover, self._fail_handover)

    def _fail_handover(self, failure: Failure) -> None:
        """End the subscription: a new start would miss events without a gap."""
        error = failure.value
        if not isinstance(error, BrokerError):
            self.log.failure("taking over a subscription failed", failure)
            error = NotConnected("the subscription's previous node could not be asked")
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
            Position.from_wire(self._message.position) if self._has_client_position else None,
        )
        self._resumes = position is not None
        if position is None:
            position = Position(feed.active_from)
        else:
            position = self._stored_position = complete_position(log, position)
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
        message = self._message
        if not message.durable:
            self._accept()
            return
        position = Position(self._start.position)
        if message.start == "position":
            # The client resumes behind its last received event. If it dies now, events without an
            # acknowledgement must come again.
            if self._stored_position is not None:
                position = common_position(self._stored_position, position)
            if message.processed is not None:
                position = common_position(Position.from_wire(message.processed), position)
        active_from = None
        if self._is_log_complete():
            active_from = None if self._stored is None else self._stored.active_from
        elif self._feed.is_active:
            active_from = Position(self._feed.active_from)
        self._context.durables.store(
            *self._durable_key(),
            pattern=message.pattern,
            query=message.query,
            namespaces=message.namespaces,
            position=position,
            stored=self._accept,
            active_from=active_from,
            previous_address=self._previous_address,
            owner=self._profile.owner,
        )

    def _accept(self) -> None:
        if not self._is_open():
            return
        position = None if self._stored_position is None else self._stored_position.to_wire()
        self._callbacks.send_message(Subscribed(self._feed.number, position, self._warnings))
        self._feed.is_accepted = True
        if self._resumes:
            stored = self._stored if self._is_stored_here() else None
            self._context.on_resumed(self._feed, None if stored is None else stored.used_ms)
        self._advance()

    def _advance(self) -> None:
        feed = self._feed
        if not feed.is_accepted or not self._is_open():
            return
        if feed.is_active and not self._has_sent_active:
            self._has_sent_active = True
            self._callbacks.send_message(Flowing(feed.number, Position(feed.active_from).to_wire()))
        if not self._is_fed and (feed.is_active or not self._must_be_active()):
            self._is_fed = True
            self._start_feed()

    # ------------------------------------------------------------------ the splice

    def _must_be_active(self) -> bool:
        """Return whether feeding must wait: missed ranges are unknown before."""
        has_missed = not self._is_log_complete() or self._is_bounded()
        return self._starts_in_past() or (self._resumes and has_missed)

    def _starts_in_past(self) -> bool:
        message, recovery = self._message, self._context.recovery
        return message.start == "last" or (
            message.start in _PAST_STARTS and (recovery.has_archive or self._is_bounded())
        )

    def _is_bounded(self) -> bool:
        return bool(self._message.until_ms or self._message.until)

    def _is_log_complete(self) -> bool:
        """Return whether the log has all matching events since the subscription was active."""
        if not self._was_announced:
            return False
        stored = self._stored
        return not self._message.durable or (stored is not None and stored.active_from is not None)

    def _start_feed(self) -> None:
        splice = self._find_splice()
        request = self._build_request(splice)
        is_bounded = self._is_bounded()
        self._feed.start_recovery = None if is_bounded else self._start_gap_recovery
        self._feed.note_recovered(request.ranges)
        if not (request.ranges or request.all_origins or is_bounded or request.lost_branches):
            self._callbacks.start_feed()
            return
        self._profile.delivery.feed_from_recovery(
            self._feed,
            self._context.recovery.start_recovery(request),
            splice.log_starts,
            Pacing.of_request(self._message),
            self._end_at_bound if is_bounded else None,
        )

    def _find_splice(self) -> Splice:
        feed, log = self._feed, self._context.log
        if self._starts_in_past():
            return self._open_dead_origins(splice_whole_past(feed.active_from), {})
        if not self._resumes:
            return Splice({}, {})
        position = rewind_lost_branches(log, self._start.position)
        if self._is_bounded():
            # The log feeds nothing after the end.
            splice = splice_at_cut(position, feed.active_from, "", {})
            return self._open_dead_origins(splice, position)
        end = log.end_position()
        if self._is_log_complete() and self._prefers_archive(position, end):
            return splice_at_cut(position, end, "", {})
        if not self._is_log_complete():
            splice = splice_at_cut(position, feed.active_from, log.origin, log.begins_after)
            return self._open_dead_origins(splice, position)
        complete: dict[str, Mark] = {}
        if self._stored is not None and self._stored.active_from is not None:
            complete = dict(self._stored.active_from.marks)
            for origin in (log.origin, *log.flows.own):
                complete.pop(origin, None)
        # Origins without events here, for example of this node before it lost its log.
        unknown = [o for o in position if o not in log.coverage]
        dead = [o for o in unknown if self._context.recovery.is_archive_only(o)]
        splice = splice_at_retention(position, complete, log.begins_after)
        return open_ranges(splice, position, dead)

    def _open_dead_origins(self, splice: Splice, position: Mapping[str, Mark]) -> Splice:
        origins = {*self._feed.active_from, *position}
        dead = [origin for origin in origins if self._context.recovery.is_archive_only(origin)]
        return open_ranges(splice, position, dead)

    def _prefers_archive(self, position: Mapping[str, Mark], upto: Mapping[str, Mark]) -> bool:
        places = sum(max(0, mark[1] - position.get(o, (0, 0))[1]) for o, mark in upto.items())
        return self._context.recovery.is_too_much_for_log(places)

    def _build_request(self, splice: Splice) -> RecoveryRequest:
        feed, message = self._feed, self._message
        assert feed.pattern is not None and feed.query is not None
        ranges = splice.ranges
        position = rewind_lost_branches(self._context.log, self._start.position)
        in_past = self._starts_in_past()
        if message.until:
            until = self._context.log.flows.until_marks(Position.from_wire(message.until).marks)
            ranges = limit_ranges(ranges, until, {} if in_past else position)
        from_beginning = in_past or (message.start == "position" and self._is_bounded())
        if from_beginning and not in_past:
            # A named origin is requested from its mark only, even if nothing is left of it.
            ranges = {**{origin: (mark, mark) for origin, mark in position.items()}, **ranges}
        position_had = {} if in_past else self._start.position
        origins = () if self._is_log_complete() else feed.active_from
        return RecoveryRequest(
            pattern=feed.pattern,
            query=feed.query,
            clearance=self._profile.identity.clearance.rank,
            ranges=ranges,
            known_ends={o: mark for o, mark in feed.active_from.items() if o in ranges},
            all_origins=from_beginning and not message.until,
            is_open_ended=not self._is_bounded() and not self._is_log_complete(),
            # A client that started at a time and resumes has a position too.
            from_ms=message.time if message.start in ("time", "position") else 0,
            until_ms=message.until_ms,
            event_times=message.event_times,
            last=message.last if message.start == "last" else 0,
            number=message.number,
            client_id=self._profile.identity.client_id,
            holder=self._profile.identity.holder,
            durable_name=message.durable,
            previous_address=self._previous_address,
            position=position_had,
            lost_branches=find_lost_branches(self._context.log, origins, position_had),
            # The log had all events of an active subscription until retention removed them.
            gap_reason="retention" if self._is_log_complete() else "lost",
        )

    def _start_gap_recovery(
        self, ranges: Mapping[str, MarkRange], gap_reason: str, archived: bool
    ) -> ActiveRecovery | None:
        """Recover events that the log lost or never had. `archived`: only an archive can have them;
        None without one."""
        if archived and not self._context.recovery.has_archive:
            return None
        log_fields: dict[str, Any] = {"known_ends": {}, "all_origins": False, "last": 0}
        log_fields |= {"is_open_ended": False, "previous_address": "", "lost_branches": {}}
        request = self._build_request(Splice({}, {}))
        request = attrs.evolve(request, ranges=ranges, gap_reason=gap_reason, **log_fields)
        return self._context.recovery.start_recovery(request)

    # ------------------------------------------------------------------ inside

    def _end_at_bound(self) -> None:
        if self._is_open():
            self._callbacks.end_subscription(None)

    def _is_open(self) -> bool:
        return self._profile.delivery.find_feed(self._feed.number) is self._feed

    def _durable_key(self) -> tuple[str, str]:
        return self._profile.identity.client_id, self._message.durable
