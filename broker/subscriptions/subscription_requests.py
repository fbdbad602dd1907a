"""Handling of Subscribe, Unsubscribe and Acknowledge: rights, limits, query, and start."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from broker.delivery.feed import Feed
from broker.delivery.output import Output
from broker.delivery.recovery_contract import RecoveryService
from broker.errors import (
    BadName,
    BadPosition,
    BadQuery,
    BadQueuePolicy,
    NotOwner,
    PeerError,
    TooManySubscriptions,
    UnknownSubscription,
)
from broker.event.event_time import ANY_TIME, is_empty_range
from broker.event.place import Mark, Position
from broker.event.stream import StreamPattern, check_client_id
from broker.log.event_log import EventLog
from broker.matching.contract import IMatcher
from broker.matching.query.query import Query
from broker.streams.queue_policy import (
    BLOCK,
    FAIL,
    MAX_KEY_PATHS,
    IQueuePolicy,
    default_policy,
    has_key_path,
    parse_queue_policy,
)
from broker.subscriptions.durable_subscriptions import DurableSubscription, DurableSubscriptions
from broker.subscriptions.interest import Interest
from broker.subscriptions.profile import Profile
from broker.subscriptions.start_position import check_position, find_active_from, find_start
from broker.subscriptions.subscription_context import SubscriptionCallbacks, SubscriptionContext
from broker.subscriptions.subscription_lifecycle import SubscriptionLifecycle
from broker.subscriptions.subscription_limits import SubscriptionLimits
from broker.wire.claim import ClaimedState, SignedState
from broker.wire.messages import Subscribe


class SubscriptionRequests:
    """A node's subscriptions, as its sessions change them."""

    def __init__(
        self,
        *,
        matcher: IMatcher,
        parse_query: Callable[[str, Any], Query],
        advise: Callable[[Query, bool], tuple[str, ...]],
        log: EventLog,
        output: Output,
        durables: DurableSubscriptions,
        interest: Interest,
        recovery: RecoveryService,
        limits: SubscriptionLimits,
        on_resumed: Callable[[Feed, int | None], object] = lambda *_: None,
        check_pattern: Callable[[StreamPattern], object] = lambda _: None,
    ) -> None:
        """`advise` returns warnings for a query; its flag is True for a resumed durable
        subscription. `on_resumed` gets a resumed subscription, and the time (ms since 1970) since
        which its client was away, if known. `check_pattern` raises `PeerError` for streams that
        this node does not carry."""
        self._check_pattern = check_pattern
        self._matcher = matcher
        self._parse_query = parse_query
        self._advise = advise
        self._output = output
        self._context = SubscriptionContext(log, durables, interest, recovery, on_resumed)
        self.limits = limits
        self.refused_subscriptions: Counter[str] = Counter()
        """By error code."""
        durables.on_removed = self._withdraw_durable

    def announce_stored(self) -> None:
        """Announce the interest of stored subscriptions, at the start."""
        for client_id, name, durable in self._context.durables.all():
            try:
                pattern = StreamPattern.parse(durable.pattern)
                query = self._parse_query(durable.query, durable.namespaces)
            except PeerError:
                # The client gets the error when it subscribes again.
                continue
            on_active = functools.partial(self._set_durable_active, client_id, name)
            self._context.interest.announce(
                (client_id, name), pattern, query, on_active, durable.position.marks
            )
            self._context.interest.mark_absent((client_id, name))

    def _set_durable_active(self, client_id: str, name: str, marks: Mapping[str, Mark]) -> None:
        durable = self._context.durables.get(client_id, name)
        if durable is not None and durable.active_from is None:
            log = self._context.log
            active_from = find_active_from(log, log.own_cut(), marks)
            self._context.durables.set_active_from(client_id, name, Position(active_from))

    def subscribe(
        self, profile: Profile, request: Subscribe, callbacks: SubscriptionCallbacks
    ) -> None:
        """Accept a subscription at once; a durable one after it is stored, because its client may
        then disconnect.

        Raises `BadName`, `BadQuery`, `QueryTooExpensive`, `NotAllowed`, `NotInGroup`, `NotOwner`,
        `TooManySubscriptions`, `BadPosition` or `BadQueuePolicy`, and then changes only the count
        of refused ones.
        """
        try:
            self._create_subscription(profile, request, callbacks)
        except PeerError as error:
            self.refused_subscriptions[error.code] += 1
            raise

    def _create_subscription(
        self, profile: Profile, request: Subscribe, callbacks: SubscriptionCallbacks
    ) -> None:
        identity, delivery = profile.identity, profile.delivery
        if delivery.find_feed(request.number) is not None:
            raise BadName(f"subscription number {request.number} is in use")
        pattern = StreamPattern.parse(request.pattern)
        identity.check_subscribe(pattern)
        self._check_pattern(pattern)
        self._check_limits(profile, request)
        if request.durable:
            self._check_owner(profile, request)
        query = self._parse_query(request.query, request.namespaces)
        self._check_bounds(request)
        policy = self._find_policy(request, delivery.feeds)
        log = self._context.log
        stored = None
        if request.durable:
            stored = self._context.durables.get(identity.client_id, request.durable)
        position = _known_position(request, stored)
        if position is None and request.start == "stored":
            if self._context.durables.is_damaged(identity.client_id, request.durable):
                # The stored position is lost: begin with the whole log instead of missing events.
                position = Position({})
        start = find_start(log, request, position, log.end_position())
        feed = Feed(
            number=request.number,
            matcher_number=self._matcher.subscribe(
                pattern, query, identity.holder, identity.clearance.rank
            ),
            is_durable=bool(request.durable),
            cut=log.newest[1],
            newest_at_start=log.newest,
            elsewhere_at_start=log.unlogged_places,
            cursor=start.serial,
            query=query,
            pattern=pattern,
            reported_marks=dict(start.position),
            skip_marks=start.skip,
            wants_stream_times=request.times,
            policy=policy,
        )
        self._output.add_feed(delivery, feed)
        if request.durable and not _is_unchanged(request, stored):
            profile.record("durable-change" if stored else "durable-create", request.durable)
        self.limits.count_added(identity)
        SubscriptionLifecycle(
            *(self._context, profile, request, callbacks),
            feed=feed,
            stored=stored,
            start=start,
            warnings=self._advise(query, stored is not None),
        ).announce()

    def _withdraw_durable(self, client_id: str, name: str) -> None:
        self._context.interest.withdraw((client_id, name))

    def unsubscribe(self, profile: Profile, number: int, *, forget: bool) -> None:
        """Raises `UnknownSubscription` for an unknown number."""
        feed = profile.delivery.find_feed(number)
        if feed is None:
            raise UnknownSubscription(f"no subscription has number {number}")
        self._matcher.unsubscribe(feed.matcher_number)
        self._output.remove_feed(feed.matcher_number)
        self.limits.count_removed(profile.identity)
        name = profile.durable_names.pop(number, None)
        if name is None:
            self._context.interest.withdraw(feed.matcher_number)
        else:
            self._context.interest.mark_absent((profile.identity.client_id, name))
            self._context.durables.release(profile.identity.client_id, name)
            if forget:
                self._context.durables.delete(profile.identity.client_id, name)
                profile.record("durable-delete", name)

    def acknowledge(self, profile: Profile, number: int, position: Position) -> None:
        """Store a processed position; ignored for a transient subscription."""
        name = profile.durable_names.get(number)
        if name is None:
            return
        check_position(self._context.log, position)
        client_id = profile.identity.client_id
        self.limits.check_acknowledged(client_id, name, position)
        durables = self._context.durables
        durables.acknowledge(client_id, name, position)
        previous_address = durables.find_releasable_node(client_id, name)
        if previous_address:
            # Repeated until the other node confirms.
            self._context.recovery.release_previous_node(client_id, name, previous_address)

    def end_session(self, profile: Profile) -> None:
        """Durable subscriptions stay stored."""
        for feed in list(profile.delivery.feeds):
            self._matcher.unsubscribe(feed.matcher_number)
            if not feed.is_durable:
                self._context.interest.withdraw(feed.matcher_number)
        for name in profile.durable_names.values():
            self._context.interest.mark_absent((profile.identity.client_id, name))
            self._context.durables.release(profile.identity.client_id, name)
        self.limits.count_removed(profile.identity, len(profile.delivery.feeds))
        self._output.remove_session(profile.delivery)

    # ------------------------------------------------------------------ checks of a request

    def _check_owner(self, profile: Profile, request: Subscribe) -> None:
        """Raise `NotOwner` unless the client may have its durable subscriptions."""
        identity, durables, claim = profile.identity, self._context.durables, request.claim
        client_id = identity.client_id
        signed = None
        if claim is None and durables.requires_key:
            raise NotOwner(
                "this node stores durable subscriptions of clients with a key only: use a state "
                "folder, and a client library of this version"
            )
        if claim is not None:
            process = (client_id, profile.incarnation, profile.token)
            state = ClaimedState(*process, request.durable, profile.node_address)
            state.check(claim)
            signed = SignedState(state, claim)
        owner, account = durables.owner_of(client_id), durables.account_of(identity)
        profile.owner = owner.updated(client_id, account, signed)

    def _check_bounds(self, request: Subscribe) -> None:
        if request.start == "last" and not request.last:
            raise BadQuery("start 'last' needs a number of events above 0")
        if request.event_times != ANY_TIME:
            if request.durable or not (request.until_ms or request.until):
                raise BadPosition("only a replay with an end can have a range of the events' times")
            if is_empty_range(request.event_times):
                raise BadPosition("the range of the events' own times is empty")
        check_position(self._context.log, Position.from_wire(request.until))

    def _find_policy(self, request: Subscribe, feeds: Iterable[Feed]) -> IQueuePolicy:
        """Raises `BadQueuePolicy`, also for a durable subscription that would lose events, or
        `TooManySubscriptions` for those that evaluate a path."""
        if not request.queue:
            return default_policy(is_durable=bool(request.durable))
        policy = parse_queue_policy(request.queue, request.namespaces, self._parse_query)
        if request.durable and policy not in (BLOCK, FAIL):
            raise BadQueuePolicy(
                f"a durable subscription loses no event: its queue policy is block or fail, "
                f"not {policy.name}"
            )
        if has_key_path(policy) and sum(has_key_path(f.policy) for f in feeds) >= MAX_KEY_PATHS:
            raise TooManySubscriptions(
                f"{MAX_KEY_PATHS} subscriptions that coalesce by a path are the limit of a session"
            )
        return policy

    def _check_limits(self, profile: Profile, request: Subscribe) -> None:
        self.limits.check_subscription(profile)
        self.limits.check_positions(profile, request)
        if not request.durable:
            return
        try:
            check_client_id(request.durable)
        except BadName:
            raise BadName(
                f"durable name {request.durable[:80]!r} is not 1 to 64 of A-Z a-z 0-9 _ . @ -"
            ) from None
        if request.durable in profile.durable_names.values():
            raise BadName(f"durable subscription {request.durable!r} is in use in this session")
        client_id = profile.identity.client_id
        if self._context.durables.get(client_id, request.durable) is None:
            self.limits.check_durable(profile.identity)


def _is_unchanged(request: Subscribe, stored: DurableSubscription | None) -> bool:
    """True if a stored subscription continues with its streams and query."""
    return stored is not None and (request.pattern, request.query, request.namespaces) == (
        *(stored.pattern, stored.query, stored.namespaces),
    )


def _known_position(request: Subscribe, stored: DurableSubscription | None) -> Position | None:
    """Return the client's position; None for a new start."""
    if request.start not in ("position", "stored"):
        return None
    claimed = Position.from_wire(request.position)
    if request.start == "position":
        return claimed
    if stored is None:
        return claimed if claimed.marks else None
    return stored.position.merged(claimed)
