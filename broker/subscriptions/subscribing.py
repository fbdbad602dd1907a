"""Taking subscriptions: rights, limits, the query, where to begin, and the cut."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from broker.delivery.feed import Feed
from broker.delivery.output import Output
from broker.delivery.recovery import Recovery
from broker.errors import (
    BadName,
    BadPosition,
    BadQuery,
    PeerError,
    TooManySubscriptions,
    UnknownSubscription,
)
from broker.event.place import Mark, Position
from broker.event.stream import StreamPattern, check_client_id
from broker.log.event_log import EventLog
from broker.matching.contract import IMatcher
from broker.matching.query.query import Query
from broker.subscriptions.beginning import beginning, check_position, flowing_from
from broker.subscriptions.durables import Durable, Durables
from broker.subscriptions.interest import Interest
from broker.subscriptions.profile import Profile
from broker.subscriptions.taking import Confirming, Surroundings, Taking
from broker.wire.messages import Subscribe


class Subscribing:
    """What a node does with Subscribe, Unsubscribe and Acknowledge."""

    def __init__(
        self,
        *,
        matcher: IMatcher,
        parse_query: Callable[[str, Any], Query],
        advise: Callable[[Query, bool], tuple[str, ...]],
        log: EventLog,
        output: Output,
        durables: Durables,
        interest: Interest,
        recovery: Recovery,
        max_subscriptions: int,
        came_back: Callable[[Feed, int | None], object] = lambda *_: None,
    ) -> None:
        """`advise` gives warnings for a query, and for one of a durable subscription that was left
        and is taken up again. `came_back` is told a subscription that goes on, and since when (ms
        since 1970) its client was away, if that is known."""
        self._matcher = matcher
        self._parse_query = parse_query
        self._advise = advise
        self._output = output
        self._around = Surroundings(log, durables, interest, recovery, came_back)
        self._max_subscriptions = max_subscriptions
        self.refused: Counter[str] = Counter()
        """Subscriptions that were refused, by error code."""
        durables.gone = self._durable_gone

    def want_durables(self) -> None:
        """What was stored is wanted while its clients are away, too: to be called at the start."""
        for client_id, name, durable in self._around.durables.all():
            try:
                pattern = StreamPattern.parse(durable.pattern)
                query = self._parse_query(durable.query, durable.namespaces)
            except PeerError:
                # Its client will be told when it comes for it.
                continue
            flows = functools.partial(self._durable_flows, client_id, name)
            self._around.interest.want(
                (client_id, name), pattern, query, flows, durable.position.marks
            )
            self._around.interest.away((client_id, name))

    def _durable_flows(self, client_id: str, name: str, cuts: Mapping[str, Mark]) -> None:
        durable = self._around.durables.get(client_id, name)
        if durable is not None and durable.flows_from is None:
            log = self._around.log
            flows_from = flowing_from(log, log.own_end, cuts)
            self._around.durables.flows(client_id, name, Position(flows_from))

    def subscribe(self, profile: Profile, wanted: Subscribe, confirming: Confirming) -> None:
        """Take a subscription: it is told that it is accepted, and may be fed, unless it has ended.

        That is at once; for a durable one when it is stored, for who is told that it has been
        accepted may go away and count on it. It is told that it flows when other nodes know of it.

        Raises `BadName`, `BadQuery`, `QueryTooExpensive`, `NotAllowed`, `TooManySubscriptions` or
        `BadPosition`; then nothing has changed but the count of those refused.
        """
        try:
            self._take(profile, wanted, confirming)
        except PeerError as error:
            self.refused[error.code] += 1
            raise

    def _take(self, profile: Profile, wanted: Subscribe, confirming: Confirming) -> None:
        identity, link = profile.identity, profile.link
        if link.get(wanted.number) is not None:
            raise BadName(f"subscription number {wanted.number} is in use")
        pattern = StreamPattern.parse(wanted.pattern)
        identity.check_subscribe(pattern)
        self._check_room(profile, wanted)
        query = self._parse_query(wanted.query, wanted.namespaces)
        self._check_past(wanted)
        log = self._around.log
        stored = None
        if wanted.durable:
            stored = self._around.durables.get(identity.client_id, wanted.durable)
        position = _position(wanted, stored)
        if position is None and wanted.start == "stored":
            if self._around.durables.is_damaged(identity.client_id, wanted.durable):
                # Its position is lost: better all that the log has than nothing.
                position = Position({})
        begins = beginning(log, wanted, position, log.end_position())
        feed = Feed(
            number=wanted.number,
            matcher_number=self._matcher.subscribe(pattern, query, identity.client_id),
            durable=bool(wanted.durable),
            cut=log.newest[1],
            given=log.newest,
            elsewhere_before=log.unlogged_places,
            cursor=begins.serial,
            query=query,
            pattern=pattern,
            told=dict(begins.position),
            skip=begins.skip,
            times=wanted.times,
        )
        self._output.subscribe(link, feed)
        Taking(
            *(self._around, profile, wanted, confirming),
            feed=feed,
            stored=stored,
            begins=begins,
            warnings=self._advise(query, stored is not None),
        ).begin()

    def _durable_gone(self, client_id: str, name: str) -> None:
        self._around.interest.unwant((client_id, name))

    def unsubscribe(self, profile: Profile, number: int, *, forget: bool) -> None:
        """End a subscription; `UnknownSubscription` if the session has none of that number."""
        feed = profile.link.get(number)
        if feed is None:
            raise UnknownSubscription(f"no subscription has number {number}")
        self._matcher.unsubscribe(feed.matcher_number)
        self._output.unsubscribe(feed.matcher_number)
        name = profile.durable.pop(number, None)
        if name is None:
            self._around.interest.unwant(feed.matcher_number)
        else:
            self._around.interest.away((profile.identity.client_id, name))
            self._around.durables.release(profile.identity.client_id, name)
            if forget:
                self._around.durables.forget(profile.identity.client_id, name)

    def acknowledge(self, profile: Profile, number: int, position: Position) -> None:
        """Note how far a durable subscription was processed; nothing for a transient one."""
        name = profile.durable.get(number)
        if name is None:
            return
        if position.marks.get(self._around.log.origin, (0, 0)) > self._around.log.own_end:
            raise BadPosition(
                f"position {position} lies in the future of {self._around.log.origin}"
            )
        client_id = profile.identity.client_id
        durables = self._around.durables
        durables.acknowledge(client_id, name, position)
        former = durables.settled_former(client_id, name)
        if former:
            # With each acknowledgement, until that node says that it has heard of it.
            self._around.recovery.settled(client_id, name, former)

    def end(self, profile: Profile) -> None:
        """The session is over: its subscriptions end, durable ones stay stored."""
        for feed in list(profile.link.feeds):
            self._matcher.unsubscribe(feed.matcher_number)
            if not feed.durable:
                self._around.interest.unwant(feed.matcher_number)
        for name in profile.durable.values():
            self._around.interest.away((profile.identity.client_id, name))
            self._around.durables.release(profile.identity.client_id, name)
        self._output.remove_link(profile.link)

    # ------------------------------------------------------------------ what can be had

    def _check_past(self, wanted: Subscribe) -> None:
        if wanted.start == "last" and not wanted.last:
            raise BadQuery("the last 0 events are none: say how many")
        check_position(self._around.log, Position.from_wire(wanted.until))

    def _check_room(self, profile: Profile, wanted: Subscribe) -> None:
        if len(profile.link.feeds) >= self._max_subscriptions:
            raise TooManySubscriptions(
                f"{self._max_subscriptions} subscriptions are all that a client may have"
            )
        if not wanted.durable:
            return
        try:
            check_client_id(wanted.durable)
        except BadName:
            raise BadName(
                f"durable name {wanted.durable[:80]!r} is not 1 to 64 of A-Z a-z 0-9 _ . @ -"
            ) from None
        if wanted.durable in profile.durable.values():
            raise BadName(f"durable subscription {wanted.durable!r} is in use in this session")
        client_id = profile.identity.client_id
        known = self._around.durables.get(client_id, wanted.durable) is not None
        if not known and self._around.durables.count(client_id) >= self._max_subscriptions:
            raise TooManySubscriptions(
                f"{self._max_subscriptions} durable subscriptions are all that a client may have"
            )


def _position(wanted: Subscribe, stored: Durable | None) -> Position | None:
    """How far a client has got, as far as that is known here; None where it begins anew."""
    if wanted.start not in ("position", "stored"):
        return None
    said = Position.from_wire(wanted.position)
    if wanted.start == "position":
        return said
    if stored is None:
        return said if said.marks else None
    return stored.position.merged(said)
