"""What becomes of an event for each subscription of one client: why it got it, or did not (N7)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import attrs

from broker.delivery.feed import Feed, Pace
from broker.errors import BrokerError
from broker.event.envelope import SecurityLevel
from broker.event.place import Mark, Place
from broker.event.stream import StreamPattern
from broker.identity import Identity
from broker.ingest.outcomes import DeliveryOutcomes
from broker.log.deduplication import Deduplication, Freshness
from broker.matching.explain.explanation import EventExplanation, Explanation
from broker.matching.query.query import Query, parse_query
from broker.sessions.session import Session
from broker.subscriptions.durables import Durable, Durables

#: Subscriptions that are looked at; and seconds after which no further one is. Those left out are
#: counted.
MAX_SUBSCRIPTIONS: Final = 100
MAX_SECONDS: Final = 0.2

_ANY: Final = parse_query("true()")
_NOWHERE: Final[Mark] = (0, 0)


@attrs.frozen
class Fate:
    """What becomes of the event, in a word, and in words for a person."""

    verdict: str
    """`refused`, `stream`, `query`, `clearance`, `unevaluated`: it is not for it, and why.
    `before`: its client has had it, or it is too old. `moved`: the subscription is at another node.
    `unconfirmed`, `catching-up`, `paused`, `away`: it comes later. `dropped`, `gone`: maybe it was
    lost. `delivered`: nothing stands in its way. Empty without an event."""
    reason: str = ""


_PAUSED: Final = Fate("paused", "the subscription is paused: it comes when that is resumed")


class Deliverability:
    """Looks at the live sessions and stored subscriptions of a node."""

    def __init__(
        self,
        *,
        sessions: Callable[[], Iterable[Session]],
        durables: Durables,
        deduplication: Deduplication,
        parse_query: Callable[[str, Mapping[str, str]], Query],
        stopwatch: Callable[[], float],
    ) -> None:
        self._sessions = sessions
        self._durables = durables
        self._deduplication = deduplication
        self._parse_query = parse_query
        self._stopwatch = stopwatch

    def of(
        self,
        client_id: str,
        explain: Callable[[Query], Explanation],
        place: Place | None = None,
    ) -> dict[str, Any]:
        """Plain content; `explain` explains a query on the event, if there is one. `place` is where
        the event lies, if that is known."""
        event = explain(_ANY).event
        sessions = [each for each in self._sessions() if each.identity.client_id == client_id]
        told: list[dict[str, Any]] = []
        left_out = 0
        deadline = self._stopwatch() + MAX_SECONDS
        for look in self._looks(client_id, sessions, event, explain, place):
            if len(told) >= MAX_SUBSCRIPTIONS or (told and self._stopwatch() > deadline):
                left_out += 1
            else:
                told.append(look())
        return {
            "client": client_id,
            "connected": [each.state.value for each in sessions],
            "accepted": self._accepted(event),
            "subscriptions": told,
            "left_out": left_out,
        }

    def _accepted(self, event: EventExplanation | None) -> bool | None:
        """Whether the node has logged such an event; None if it can not tell."""
        if event is None or event.refused is not None:
            return None
        publisher = (event.client_id, event.incarnation)
        freshness = self._deduplication.check(publisher, event.sequence_number)
        return None if freshness is Freshness.OUTSIDE else freshness is Freshness.DUPLICATE

    def _looks(
        self,
        client_id: str,
        sessions: Iterable[Session],
        event: EventExplanation | None,
        explain: Callable[[Query], Explanation],
        place: Place | None,
    ) -> Iterator[Callable[[], dict[str, Any]]]:
        for session in sessions:
            session.link.settle()
            for feed in session.link.feeds:
                yield lambda s=session, f=feed: self._live(s, f, event, explain, place)  # type: ignore[misc]
        for name in self._durables.of(client_id):
            if not self._durables.in_use(client_id, name):
                yield lambda n=name: self._stored(client_id, n, event, explain, place)  # type: ignore[misc]

    def _live(
        self,
        session: Session,
        feed: Feed,
        event: EventExplanation | None,
        explain: Callable[[Query], Explanation],
        place: Place | None,
    ) -> dict[str, Any]:
        query, pattern = feed.query, feed.pattern
        assert query is not None and pattern is not None
        explanation = explain(query)
        fate = _unfit(pattern, explanation.event)
        if fate is None and event is not None:
            fate = _not_cleared(session.identity, event)
            fate = fate or _before(feed.begins, place) or _paced(feed, place)
        return {
            "number": feed.number,
            "durable": feed.durable,
            "pace": feed.pace.value,
            "queued": session.link.waiting_for(feed),
            **attrs.asdict(feed.outcomes),
            **_told(pattern, query, fate, explanation),
        }

    def _stored(
        self,
        client_id: str,
        name: str,
        event: EventExplanation | None,
        explain: Callable[[Query], Explanation],
        place: Place | None,
    ) -> dict[str, Any]:
        durable = self._durables.of(client_id)[name]
        told: dict[str, Any] = {"durable": name, "pace": "away"}
        try:
            query = self._parse_query(durable.query, durable.namespaces)
            pattern = StreamPattern.parse(durable.pattern)
        except BrokerError as error:
            return {**told, "verdict": "refused", "reason": f"it would not be accepted: {error}"}
        explanation = explain(query)
        fate = _unfit(pattern, explanation.event)
        if durable.moved_to:
            fate = Fate("moved", f"the subscription is at {durable.moved_to} now")
        elif fate is None and event is not None:
            fate = _before(durable.position.marks, place) or _stored_fate(durable)
        return {**told, **_told(pattern, query, fate, explanation)}


def _unfit(pattern: StreamPattern, event: EventExplanation | None) -> Fate | None:
    """Why the event is not for a subscription with this pattern; None if it is."""
    if event is None:
        return None
    if event.refused is not None:
        return Fate("refused", f"no such event is accepted: {event.refused[1]}")
    if not pattern.matches(event.stream):
        return Fate("stream", f"{pattern.text} does not take the stream {event.stream}")
    if event.matches is None:
        return Fate("unevaluated", event.note)
    if not event.matches:
        note = "" if event.finding is None else event.finding.note
        return Fate("query", note or "the query does not match")
    return None


def _not_cleared(identity: Identity, event: EventExplanation) -> Fate | None:
    level, cleared = SecurityLevel(event.security_level), identity.clearance
    if identity.is_cleared(level):
        return None
    return Fate("clearance", f"the event is {level.value}, it is cleared up to {cleared.value}")


def _before(begins: Mapping[str, Mark], place: Place | None) -> Fate | None:
    """Why an event that was published is not for a subscription that begins there."""
    if place is None or place.mark > begins.get(place.origin, _NOWHERE):
        return None
    return Fate(
        "before", "its client has had it, or it was published before the subscription began"
    )


def _stored_fate(durable: Durable) -> Fate:
    if durable.paused:
        return _PAUSED
    reason = "nobody has it in use: it comes when the client is back, if that is cleared for it"
    return Fate("away", reason)


def _paced(feed: Feed, place: Place | None) -> Fate:
    """What becomes of an event that is for a subscription."""
    outcomes = feed.outcomes
    if (
        place is not None
        and max(feed.told.get(place.origin, _NOWHERE), feed.passed.get(place.origin, _NOWHERE))
        >= place.mark
    ):
        # It has got further already.
        return _sent(outcomes)
    if feed.paused:
        return _PAUSED
    if feed.pace is Pace.UNCONFIRMED:
        return Fate("unconfirmed", "the subscription is not yet stored: nothing goes out before")
    if feed.pace is Pace.CATCHING_UP:
        return Fate("catching-up", f"it reads the log, and has got to offset {feed.cursor}")
    return _sent(outcomes)


def _sent(outcomes: DeliveryOutcomes) -> Fate:
    if outcomes.dropped:
        return Fate("dropped", f"its queue was full: {outcomes.dropped} events were dropped")
    if outcomes.gone:
        return Fate("gone", f"the log no longer had {outcomes.gone} places that it wanted")
    return Fate("delivered")


def _told(
    pattern: StreamPattern, query: Query, fate: Fate | None, explanation: Explanation
) -> dict[str, Any]:
    event = explanation.event
    finding = None if event is None or event.finding is None else attrs.asdict(event.finding)
    return {
        "pattern": pattern.text,
        "query": query.text,
        "matches": None if event is None else event.matches,
        **attrs.asdict(fate or Fate("")),
        "finding": finding,
    }
