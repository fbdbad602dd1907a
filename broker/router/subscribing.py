"""Taking subscriptions: rights, limits, the query, where to begin, and the cut."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import attrs

from broker.content.contract import IMatcher
from broker.content.query.query import Query
from broker.errors import (
    BadName,
    BadPosition,
    BadQuery,
    PeerError,
    TooManySubscriptions,
    UnknownSubscription,
)
from broker.event.place import Position
from broker.event.stream import StreamPattern, check_client_id
from broker.identity import Identity
from broker.router.durables import Durables
from broker.router.feed import Feed
from broker.router.link import Link
from broker.router.output import Output
from broker.session.messages import Flowing, Subscribe, Subscribed
from broker.store.event_log import EventLog


@attrs.define(eq=False)
class Profile:
    """The subscriptions of one session: the client's numbers, and the names of durable ones."""

    identity: Identity
    link: Link
    durable: dict[int, str] = attrs.field(factory=dict)


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
        max_subscriptions: int,
    ) -> None:
        """`advise` gives warnings for a query, and for one of a durable subscription that was left
        and is taken up again."""
        self._matcher = matcher
        self._parse_query = parse_query
        self._advise = advise
        self._log = log
        self._output = output
        self._durables = durables
        self._max_subscriptions = max_subscriptions
        self.refused: Counter[str] = Counter()
        """Subscriptions that were refused, by error code."""

    def subscribe(
        self,
        profile: Profile,
        wanted: Subscribe,
        confirm: Callable[[Subscribed, Flowing], object],
    ) -> None:
        """Take a subscription: `confirm` is called when it may be fed, unless it has ended then.

        That is at once; for a durable one when it is stored, for who is told that it has been
        accepted may go away and count on it.

        Raises `BadName`, `BadQuery`, `QueryTooExpensive`, `NotAllowed`, `TooManySubscriptions` or
        `BadPosition`; then nothing has changed but the count of those refused.
        """
        try:
            self._take(profile, wanted, confirm)
        except PeerError as error:
            self.refused[error.code] += 1
            raise

    def _take(
        self,
        profile: Profile,
        wanted: Subscribe,
        confirm: Callable[[Subscribed, Flowing], object],
    ) -> None:
        identity, link = profile.identity, profile.link
        if link.get(wanted.number) is not None:
            raise BadName(f"subscription number {wanted.number} is in use")
        pattern = StreamPattern.parse(wanted.pattern)
        identity.check_subscribe(pattern)
        self._check_room(profile, wanted)
        query = self._parse_query(wanted.query, wanted.namespaces)
        cut = self._log.firm_cut
        told = (self._log.origin, *cut)
        stored = self._stored(profile, wanted)
        cursor = self._cursor(wanted, stored)
        warnings = self._advise(query, stored is not None)
        feed = Feed(
            number=wanted.number,
            matcher_number=self._matcher.subscribe(pattern, query, identity.client_id),
            durable=bool(wanted.durable),
            cut=cut,
            given=self._log.cut,
            cursor=cursor,
            query=query,
            pattern=pattern,
        )
        self._output.subscribe(link, feed)

        def begin() -> None:
            if link.get(wanted.number) is feed:
                left_off = None if stored is None else stored.to_wire()
                confirm(
                    Subscribed(wanted.number, left_off, warnings), Flowing(wanted.number, (told,))
                )

        if not wanted.durable:
            begin()
            return
        profile.durable[wanted.number] = wanted.durable
        self._durables.put(
            identity.client_id,
            wanted.durable,
            pattern=wanted.pattern,
            query=wanted.query,
            namespaces=wanted.namespaces,
            position=self._before(cursor, wanted, stored),
            stored=begin,
        )

    def unsubscribe(self, profile: Profile, number: int, *, forget: bool) -> None:
        """End a subscription; `UnknownSubscription` if the session has none of that number."""
        feed = profile.link.get(number)
        if feed is None:
            raise UnknownSubscription(f"no subscription has number {number}")
        self._matcher.unsubscribe(feed.matcher_number)
        self._output.unsubscribe(feed.matcher_number)
        name = profile.durable.pop(number, None)
        if name is not None:
            self._durables.release(profile.identity.client_id, name)
            if forget:
                self._durables.forget(profile.identity.client_id, name)

    def acknowledge(self, profile: Profile, number: int, position: Position) -> None:
        """Note how far a durable subscription was processed; nothing for a transient one."""
        name = profile.durable.get(number)
        if name is None:
            return
        mark = position.marks.get(self._log.origin)
        if mark is not None and mark > self._log.cut:
            raise BadPosition(f"position {position} lies in the future of {self._log.origin}")
        self._durables.acknowledge(profile.identity.client_id, name, position)

    def end(self, profile: Profile) -> None:
        """The session is over: its subscriptions end, durable ones stay stored."""
        for feed in list(profile.link.feeds):
            self._matcher.unsubscribe(feed.matcher_number)
        for name in profile.durable.values():
            self._durables.release(profile.identity.client_id, name)
        self._output.remove_link(profile.link)

    # ------------------------------------------------------------------ where to begin

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
        known = self._durables.get(client_id, wanted.durable) is not None
        if not known and self._durables.count(client_id) >= self._max_subscriptions:
            raise TooManySubscriptions(
                f"{self._max_subscriptions} durable subscriptions are all that a client may have"
            )

    def _stored(self, profile: Profile, wanted: Subscribe) -> Position | None:
        if not wanted.durable:
            return None
        durable = self._durables.get(profile.identity.client_id, wanted.durable)
        return None if durable is None else durable.position

    def _cursor(self, wanted: Subscribe, stored: Position | None) -> int:
        log = self._log
        if wanted.start == "new" or (wanted.start == "stored" and stored is None):
            return log.firm_cut[1] + 1
        if wanted.start == "all":
            return log.bounds.first
        if wanted.start == "time":
            return log.first_at(wanted.time)
        if wanted.start not in ("position", "stored"):
            raise BadQuery(
                f"start {wanted.start[:20]!r} is none of new, all, position, time, stored"
            )
        position = stored if wanted.start == "stored" else Position.from_wire(wanted.position)
        assert position is not None
        mark = position.marks.get(log.origin)
        if mark is None:
            # Everything here is new to it: another node's places say nothing about ours.
            return log.bounds.first
        if mark > log.cut:
            raise BadPosition(
                f"position {mark[0]}:{mark[1]} lies in the future of {log.origin}, "
                f"which has got to {log.cut[0]}:{log.cut[1]}"
            )
        # Where retention took what comes next, the feed begins at what is gone, so as to tell it.
        if mark[0] == log.cut[0]:
            return mark[1] + 1
        # What followed in an earlier epoch may have had its places taken back.
        return min(mark[1] + 1, log.first_after(mark))

    def _before(self, cursor: int, wanted: Subscribe, stored: Position | None) -> Position:
        """What to store for a durable one that begins at `cursor`, until it acknowledges."""
        if wanted.start == "position":
            position = Position.from_wire(wanted.position)
            # A client that comes back begins behind what it has received. Only what it has
            # acknowledged is processed: if it dies now, the rest has to be sent again.
            return position if stored is None else _common(stored, position)
        if wanted.start == "stored" and stored is not None:
            return stored
        cut = self._log.firm_cut
        if cursor > cut[1]:
            return Position({self._log.origin: cut})
        mark = self._log.mark_before(cursor)
        return Position({} if mark is None else {self._log.origin: mark})


def _common(one: Position, other: Position) -> Position:
    """What lies behind both positions."""
    both = one.marks.keys() & other.marks.keys()
    return Position({origin: min(one.marks[origin], other.marks[origin]) for origin in both})
