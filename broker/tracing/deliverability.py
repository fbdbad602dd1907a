"""Fate of an event for each subscription of one client: delivered, or the reason why not (N7)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import attrs

from broker.delivery.feed import Feed, FeedState
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
from broker.subscriptions.durable_subscriptions import DurableSubscription, DurableSubscriptions
from broker.transport.clock import IClock
from broker.transport.sleep import sleep

#: For one answer; further subscriptions are counted.
MAX_SUBSCRIPTIONS: Final = 100
#: Of work for one answer.
MAX_SECONDS: Final = 0.2
#: Of work in one turn of the reactor.
SLICE_SECONDS: Final = 0.02

_ANY_QUERY: Final = parse_query("true()")
_BEFORE_ALL: Final[Mark] = (0, 0)


@attrs.frozen
class DeliveryFate:
    """Verdict on a delivery, with a reason for a person."""

    verdict: str
    """`refused`, `stream`, `query`, `clearance`, `unevaluated`: the event does not match. `before`:
    the client has had it, or it is too old. `moved`: the subscription is at another node.
    `unconfirmed`, `catching-up`, `paused`, `away`: it is delivered later. `dropped`, `gone`:
    possibly lost. `delivered`: no obstacle. Empty without an event."""
    reason: str = ""


_PAUSED_FATE: Final = DeliveryFate(
    "paused", "the subscription is paused: the event comes after it is resumed"
)


class DeliveryFates:
    """Checks the subscriptions of a node's sessions, and stored ones."""

    def __init__(
        self,
        *,
        sessions: Callable[[], Iterable[Session]],
        durables: DurableSubscriptions,
        deduplication: Deduplication,
        parse_query: Callable[[str, Mapping[str, str]], Query],
        stopwatch: Callable[[], float],
        clock: IClock,
    ) -> None:
        self._sessions = sessions
        self._durables = durables
        self._deduplication = deduplication
        self._parse_query = parse_query
        self._stopwatch = stopwatch
        self._clock = clock

    async def find_fates(
        self,
        client_id: str,
        explain: Callable[[Query], Explanation],
        place: Place | None = None,
    ) -> dict[str, Any]:
        """Return plain content. `explain` explains a query, on the event if there is one; `place`
        is the event's."""
        event = explain(_ANY_QUERY).event
        sessions = [each for each in self._sessions() if each.identity.client_id == client_id]
        found: list[dict[str, Any]] = []
        left_out = 0
        checks = list(self._subscription_checks(client_id, sessions, event, explain, place))
        worked = SLICE_SECONDS
        sliced = SLICE_SECONDS
        for check in checks:
            if len(found) >= MAX_SUBSCRIPTIONS or (found and worked > MAX_SECONDS):
                left_out += 1
                continue
            if sliced >= SLICE_SECONDS:
                await sleep(self._clock)
                sliced = 0.0
            started = self._stopwatch()
            found.append(check())
            seconds = self._stopwatch() - started
            worked, sliced = worked + seconds, sliced + seconds
        return {
            "client": client_id,
            "connected": [each.state.value for each in sessions],
            "accepted": self._has_accepted(event),
            "subscriptions": found,
            "left_out": left_out,
        }

    def _has_accepted(self, event: EventExplanation | None) -> bool | None:
        if event is None or event.refused is not None:
            return None
        publisher = (event.client_id, event.incarnation)
        freshness = self._deduplication.check(publisher, event.sequence_number)
        return None if freshness is Freshness.OUTSIDE else freshness is Freshness.DUPLICATE

    def _subscription_checks(
        self,
        client_id: str,
        sessions: Iterable[Session],
        event: EventExplanation | None,
        explain: Callable[[Query], Explanation],
        place: Place | None,
    ) -> Iterator[Callable[[], dict[str, Any]]]:
        for session in sessions:
            session.delivery.update_outcomes()
            for feed in session.delivery.feeds:
                yield lambda s=session, f=feed: self._check_live(s, f, event, explain, place)  # type: ignore[misc]
        for name, durable in self._durables.of_client(client_id).items():
            if not self._durables.is_in_use(client_id, name):
                yield lambda n=name, d=durable: self._check_stored(n, d, event, explain, place)  # type: ignore[misc]

    def _check_live(
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
        fate = _find_mismatch(pattern, explanation.event)
        if fate is None and event is not None:
            fate = _check_clearance(session.identity, event)
            fate = fate or _check_start(feed.start_marks, place) or _fate_when_active(feed, place)
        return {
            "number": feed.number,
            "durable": feed.is_durable,
            "pace": feed.state.value,
            "queued": session.delivery.count_queued_for(feed),
            **attrs.asdict(feed.outcomes),
            **_build_row(pattern, query, fate, explanation),
        }

    def _check_stored(
        self,
        name: str,
        durable: DurableSubscription,
        event: EventExplanation | None,
        explain: Callable[[Query], Explanation],
        place: Place | None,
    ) -> dict[str, Any]:
        found: dict[str, Any] = {"durable": name, "pace": "away"}
        try:
            query = self._parse_query(durable.query, durable.namespaces)
            pattern = StreamPattern.parse(durable.pattern)
        except BrokerError as error:
            return {**found, "verdict": "refused", "reason": f"it would not be accepted: {error}"}
        explanation = explain(query)
        fate = _find_mismatch(pattern, explanation.event)
        if durable.moved_to:
            fate = DeliveryFate("moved", f"the subscription is at {durable.moved_to} now")
        elif fate is None and event is not None:
            fate = _check_start(durable.position.marks, place) or _fate_when_absent(durable)
        return {**found, **_build_row(pattern, query, fate, explanation)}


def _find_mismatch(pattern: StreamPattern, event: EventExplanation | None) -> DeliveryFate | None:
    """Return the mismatch; None if the event matches."""
    if event is None:
        return None
    if event.refused is not None:
        return DeliveryFate("refused", f"no such event is accepted: {event.refused[1]}")
    if not pattern.matches(event.stream):
        return DeliveryFate("stream", f"{pattern.text} does not match the stream {event.stream}")
    if event.matches is None:
        return DeliveryFate("unevaluated", event.note)
    if not event.matches:
        note = "" if event.finding is None else event.finding.note
        return DeliveryFate("query", note or "the query does not match")
    return None


def _check_clearance(identity: Identity, event: EventExplanation) -> DeliveryFate | None:
    level, cleared = SecurityLevel(event.security_level), identity.clearance
    if identity.is_cleared(level):
        return None
    return DeliveryFate(
        "clearance", f"the event is {level.value}, the client is cleared up to {cleared.value}"
    )


def _check_start(begins: Mapping[str, Mark], place: Place | None) -> DeliveryFate | None:
    if place is None or place.mark > begins.get(place.origin, _BEFORE_ALL):
        return None
    return DeliveryFate(
        "before", "its client has had it, or it was published before the subscription began"
    )


def _fate_when_absent(durable: DurableSubscription) -> DeliveryFate:
    if durable.is_paused:
        return _PAUSED_FATE
    reason = "no session uses it: the event comes when the client is back, if it is cleared"
    return DeliveryFate("away", reason)


def _fate_when_active(feed: Feed, place: Place | None) -> DeliveryFate:
    outcomes = feed.outcomes
    if (
        place is not None
        and max(
            feed.reported_marks.get(place.origin, _BEFORE_ALL),
            feed.unreported_marks.get(place.origin, _BEFORE_ALL),
        )
        >= place.mark
    ):
        return _fate_by_outcomes(outcomes)
    if feed.is_paused:
        return _PAUSED_FATE
    if feed.state is FeedState.UNCONFIRMED:
        return DeliveryFate("unconfirmed", "the subscription is not stored yet")
    if feed.state is FeedState.CATCHING_UP:
        return DeliveryFate("catching-up", f"it reads the log, now at offset {feed.cursor}")
    return _fate_by_outcomes(outcomes)


def _fate_by_outcomes(outcomes: DeliveryOutcomes) -> DeliveryFate:
    if outcomes.dropped:
        return DeliveryFate(
            "dropped", f"its queue was full: {outcomes.dropped} events were dropped"
        )
    if outcomes.gone:
        return DeliveryFate("gone", f"the log did not have {outcomes.gone} places for it")
    return DeliveryFate("delivered")


def _build_row(
    pattern: StreamPattern, query: Query, fate: DeliveryFate | None, explanation: Explanation
) -> dict[str, Any]:
    event = explanation.event
    finding = None if event is None or event.finding is None else attrs.asdict(event.finding)
    return {
        "pattern": pattern.text,
        "query": query.written,
        "matches": None if event is None else event.matches,
        **attrs.asdict(fate or DeliveryFate("")),
        "finding": finding,
    }
