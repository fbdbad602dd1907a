"""Taking subscriptions: rights, limits, the query, where to begin, and the cut."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
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
from broker.event.place import Mark, Position
from broker.event.stream import StreamPattern, check_client_id
from broker.identity import Identity
from broker.router.durables import Durables
from broker.router.feed import Feed
from broker.router.interest import Interest
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


@attrs.frozen
class Confirming:
    """Where what becomes of a subscription is told."""

    tell: Callable[[Subscribed | Flowing], object]
    start: Callable[[], object]
    """It was told that it is accepted: it may be fed."""


@attrs.frozen
class Beginning:
    """Where a subscription begins in the log."""

    serial: int
    position: Mapping[str, Mark]
    """How far its client has got when it begins."""
    skip: dict[str, Mark] = attrs.field(factory=dict)
    """What lies behind the serial and is not for it: it has had these origins up to there."""


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
        self._interest = interest
        self._max_subscriptions = max_subscriptions
        self.refused: Counter[str] = Counter()
        """Subscriptions that were refused, by error code."""
        durables.gone = self._durable_gone

    def want_durables(self) -> None:
        """What was stored is wanted while its clients are away, too: to be called at the start."""
        for client_id, name, durable in self._durables.all():
            try:
                pattern = StreamPattern.parse(durable.pattern)
                query = self._parse_query(durable.query, durable.namespaces)
            except PeerError:
                # Its client will be told when it comes for it.
                continue
            self._interest.want((client_id, name), pattern, query, lambda _: None)
            self._interest.away((client_id, name))

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
        log = self._log
        cut = log.position()
        stored = self._stored(profile, wanted)
        begins = self._beginning(wanted, stored, cut)
        warnings = self._advise(query, stored is not None)
        feed = Feed(
            number=wanted.number,
            matcher_number=self._matcher.subscribe(pattern, query, identity.client_id),
            durable=bool(wanted.durable),
            cut=log.newest[1],
            given=log.newest,
            cursor=begins.serial,
            query=query,
            pattern=pattern,
            told=dict(begins.position),
            skip=begins.skip,
        )
        self._output.subscribe(link, feed)
        goes_on = wanted.start == "position" or (wanted.start == "stored" and stored is not None)
        resumes = begins.position if goes_on else None
        self._ask_others(profile, wanted, feed, pattern, query, cut, resumes, confirming)

        def begin() -> None:
            if link.get(wanted.number) is feed:
                left_off = None if stored is None else stored.to_wire()
                confirming.tell(Subscribed(wanted.number, left_off, warnings))
                feed.accepted = True
                if feed.flowing:
                    self._tell_flowing(link, feed, confirming)
                confirming.start()

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
            position=_kept(begins, wanted, stored),
            stored=begin,
        )

    def _ask_others(
        self,
        profile: Profile,
        wanted: Subscribe,
        feed: Feed,
        pattern: StreamPattern,
        query: Query,
        cut: Mapping[str, Mark],
        resumes: Mapping[str, Mark] | None,
        confirming: Confirming,
    ) -> None:
        """Let other nodes know what is wanted; the feed flows when they do.

        Where it goes on from how far its client has got elsewhere (`resumes`), or here before other
        nodes forgot it, what came in between is not in the log, unless others wanted it, too.
        """
        feed.flowing = False
        key: Hashable = feed.matcher_number
        if wanted.durable:
            key = (profile.identity.client_id, wanted.durable)
        goes_on = self._interest.is_wanted(key, pattern, query)
        feed.goes_on = goes_on and resumes is not None

        def flows(cuts: Mapping[str, Mark]) -> None:
            if feed.flowing:
                return
            feed.flowing = True
            # What was logged since it was taken was chosen by others who did not know of it.
            known = self._log.position()
            known[self._log.origin] = cut[self._log.origin]
            feed.flows_from = {
                origin: max(known.get(origin, (0, 0)), cuts.get(origin, (0, 0)))
                for origin in {*known, *cuts}
            }
            if resumes is not None and not goes_on:
                feed.missed = {
                    origin: (known, mark)
                    for origin, mark in feed.flows_from.items()
                    for known in [resumes.get(origin, (0, 0))]
                    if origin != self._log.origin and known[1] < mark[1]
                }
            if feed.accepted and profile.link.get(wanted.number) is feed:
                self._tell_flowing(profile.link, feed, confirming)

        if not goes_on:
            # Something else may have been wanted under the name of a durable one.
            self._interest.unwant(key)
        self._interest.want(key, pattern, query, flows)

    def _tell_flowing(self, link: Link, feed: Feed, confirming: Confirming) -> None:
        confirming.tell(Flowing(feed.number, Position(feed.flows_from).to_wire()))
        for origin, (known, mark) in feed.missed.items():
            link.tell_gap(feed, origin, known, mark, "elsewhere")
        feed.missed = {}

    def _durable_gone(self, client_id: str, name: str) -> None:
        self._interest.unwant((client_id, name))

    def unsubscribe(self, profile: Profile, number: int, *, forget: bool) -> None:
        """End a subscription; `UnknownSubscription` if the session has none of that number."""
        feed = profile.link.get(number)
        if feed is None:
            raise UnknownSubscription(f"no subscription has number {number}")
        self._matcher.unsubscribe(feed.matcher_number)
        self._output.unsubscribe(feed.matcher_number)
        name = profile.durable.pop(number, None)
        if name is None:
            self._interest.unwant(feed.matcher_number)
        else:
            self._interest.away((profile.identity.client_id, name))
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
            if not feed.durable:
                self._interest.unwant(feed.matcher_number)
        for name in profile.durable.values():
            self._interest.away((profile.identity.client_id, name))
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

    def _beginning(
        self, wanted: Subscribe, stored: Position | None, cut: Mapping[str, Mark]
    ) -> Beginning:
        log = self._log
        if wanted.start == "new" or (wanted.start == "stored" and stored is None):
            return Beginning(log.newest[1] + 1, cut)
        if wanted.start == "all":
            return self._beginning_at(log.bounds.first)
        if wanted.start == "time":
            return self._beginning_at(log.first_at(wanted.time))
        if wanted.start not in ("position", "stored"):
            raise BadQuery(
                f"start {wanted.start[:20]!r} is none of new, all, position, time, stored"
            )
        position = stored if wanted.start == "stored" else Position.from_wire(wanted.position)
        assert position is not None
        if wanted.time and wanted.start == "position":
            # It began at a time, which holds on for origins of which it has had nothing.
            before = log.position_before(log.first_at(wanted.time))
            position = Position({**before, **position.marks})
        mark = position.marks.get(log.origin)
        if mark is not None and mark > log.cut:
            raise BadPosition(
                f"position {mark[0]}:{mark[1]} lies in the future of {log.origin}, "
                f"which has got to {log.cut[0]}:{log.cut[1]}"
            )
        # Everything of an origin that it does not name is new to it.
        serials = [
            log.first_after(origin, position.marks.get(origin, (0, 0))) for origin in log.coverage
        ]
        # An event that has no durable place yet lies behind all that have one.
        serial = min(serials, default=log.bounds.last + 1)
        return Beginning(serial, position.marks, dict(position.marks))

    def _beginning_at(self, serial: int) -> Beginning:
        return Beginning(serial, self._log.position_before(serial))


def _kept(begins: Beginning, wanted: Subscribe, stored: Position | None) -> Position:
    """What to store for a durable one that begins there, until it acknowledges."""
    position = Position(begins.position)
    # A client that comes back begins behind what it has received. Only what it has acknowledged is
    # processed: if it dies now, the rest has to be sent again.
    if wanted.start == "position" and stored is not None:
        return _common(stored, position)
    if wanted.processed is not None:
        # It comes from another node.
        return _common(Position.from_wire(wanted.processed), position)
    return position


def _common(one: Position, other: Position) -> Position:
    """What lies behind both positions."""
    both = one.marks.keys() & other.marks.keys()
    return Position({origin: min(one.marks[origin], other.marks[origin]) for origin in both})
