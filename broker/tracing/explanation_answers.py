"""Answers to `explain`: evaluation of a query, and delivery of an event to a client (N7, Q14).

An explanation blocks the node for up to a tenth of a second. So one runs at a time, and a pause
of `PAUSE_FACTOR` times its duration follows.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import attrs
from twisted.internet.defer import Deferred, DeferredLock
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from broker.dtd.fetch_hint import FetchHint
from broker.dtd.interfaces import IDtdCache
from broker.errors import BadQuery, BrokerError, Overloaded, TooLarge
from broker.event.envelope import SecurityLevel
from broker.event.stream import StreamPattern
from broker.identity import Identity
from broker.ingest.outcomes import drop_operators_figures
from broker.matching.contract import NO_VARIANTS, DtdNeeded, IMatcher, Variants
from broker.matching.explain.explanation import EventExplanation, Explanation
from broker.matching.query.query import Query, parse_query
from broker.matching.undescribed import without_dtds
from broker.tracing.deliverability import DeliveryFates
from broker.tracing.event_fate import LOGGED_VERDICTS, NetworkTrace
from broker.wire.messages import Ask

#: Of all, and of one account or client; further ones are refused.
MAX_WAITING: Final = 32
MAX_WAITING_OF_HOLDER: Final = 2
#: Bytes of the largest event with more than `MAX_MARKUP` tags and attributes: the node is busy
#: while it is parsed. Long texts take little time.
MAX_EVENT_BYTES: Final = 256 * 1024
MAX_MARKUP: Final = 16_384
#: In durations of the explanation.
PAUSE_FACTOR: Final = 9.0

_REASONS_WITHOUT_FIGURES: Final = {
    "catching-up": "it reads the log",
    "gone": "the log did not have all places for it",
}
_ALL_STREAMS: Final = StreamPattern.parse(">")
_ANY_QUERY: Final = parse_query("true()")


@attrs.frozen
class ExplanationRequest:
    query: Query | None
    """None: only the fate of an event for the subscriptions of `client`."""
    document: bytes | None
    pattern: StreamPattern | None
    """Of the subscription."""
    client: str
    """Its subscriptions are checked; empty: none."""
    is_local: bool = False
    """True if no other node is asked."""


class ExplanationAnswers:
    def __init__(
        self,
        *,
        matcher: IMatcher,
        dtds: IDtdCache,
        parse_query: Callable[[str, Mapping[str, str]], Query],
        advise: Callable[[Query, bool], tuple[str, ...]],
        delivery_fates: DeliveryFates,
        network_trace: NetworkTrace,
        reactor: IReactorTime,
        stopwatch: Callable[[], float],
        accept_undescribed: bool,
    ) -> None:
        """`advise` returns reasons why no event can match a query (X10). `stopwatch` returns
        seconds."""
        self._matcher = matcher
        self._dtds = dtds
        self._parse_query = parse_query
        self._advise = advise
        self._delivery_fates = delivery_fates
        self._network_trace = network_trace
        self._reactor = reactor
        self._stopwatch = stopwatch
        self._accept_undescribed = accept_undescribed
        self._lock = DeferredLock()
        self._pause: IDelayedCall | None = None
        self._waiting: Counter[str] = Counter()

    def answer(self, identity: Identity, ask: Ask) -> Deferred[dict[str, Any]]:
        """Fails with the error of the query or pattern, with `Overloaded`, and with `NotAllowed` if
        another client is asked about without the right to administer."""
        return Deferred.fromCoroutine(self._answer(identity, ask))

    def stop(self) -> None:
        """Waiting questions are not answered."""
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None

    async def _answer(self, identity: Identity, ask: Ask) -> dict[str, Any]:
        request = self._parse_request(identity, ask)
        asking = identity.holder
        if self._waiting.total() >= MAX_WAITING or self._waiting[asking] >= MAX_WAITING_OF_HOLDER:
            raise Overloaded("too many explanations are asked for: ask again later")
        self._waiting[asking] += 1
        try:
            content, event = await self._explain_alone(request, identity)
            if event is not None and request.document is not None:
                content["network"] = await self._network_trace.trace_event(
                    identity, event, request.document, request.client, here=request.is_local
                )
            _apply_network_verdicts(content, identity)
            return content
        finally:
            self._waiting[asking] -= 1
            # Remove counts of zero.
            self._waiting = +self._waiting

    async def _explain_alone(self, request: ExplanationRequest, identity: Identity) -> _Answer:
        await self._lock.acquire()
        took = [0.0]
        try:
            return await self._explain_with_dtds(request, identity, took)
        finally:
            self._pause = self._reactor.callLater(PAUSE_FACTOR * took[0], self._end_pause)

    def _end_pause(self) -> None:
        self._pause = None
        self._lock.release()

    def _parse_request(self, identity: Identity, ask: Ask) -> ExplanationRequest:
        arguments = ask.arguments
        client, streams, text = (
            arguments.get("client", ""),
            arguments.get("streams", ""),
            arguments.get("query"),
        )
        if client and not identity.owns_client_id(client):
            identity.check_administer()
        _check_size(ask.document)
        if text is None and not client:
            raise BadQuery("there is no query to explain")
        namespaces = _parse_namespaces(arguments.get("namespaces", "{}"))
        return ExplanationRequest(
            query=None if text is None else self._parse_query(text, namespaces),
            document=ask.document or None,
            pattern=StreamPattern.parse(streams) if streams else None,
            client=client,
            is_local=arguments.get("here", "") == "yes",
        )

    async def _explain_with_dtds(
        self, request: ExplanationRequest, identity: Identity, took: list[float]
    ) -> _Answer:
        """Repeat after a missing DTD was fetched or not found. `took` sums up seconds."""
        variants: Variants = NO_VARIANTS
        refusal: BrokerError | None = None
        while True:
            began = self._stopwatch()
            try:
                return await self._build_content(
                    request, identity, _Event(request.document, variants, refusal)
                )
            except DtdNeeded as needed:
                missing = needed.missing.reference
            finally:
                took[0] += self._stopwatch() - began
            try:
                # Without the event's pointer, because nobody publishes it.
                await self._dtds.lookup(missing, FetchHint())
            except BrokerError as error:
                if self._accept_undescribed:
                    variants = without_dtds([missing])
                else:
                    refusal = error

    async def _build_content(
        self, request: ExplanationRequest, identity: Identity, event: _Event
    ) -> _Answer:
        on_event: EventExplanation | None = None
        content: dict[str, Any] = {
            "explanation": None,
            "warnings": [],
            "subscription": None,
            "client": None,
            "network": None,
        }
        if request.query is not None:
            reads_all = (
                identity.rights.may_subscribe(_ALL_STREAMS)
                and identity.is_cleared(SecurityLevel.HIGH)
            ) or identity.administer
            explanation = self._explain(request.query, event, shapes=reads_all)
            on_event = explanation.event
            content["explanation"] = explanation.as_dict()
            content["warnings"] = list(self._advise(request.query, False))
            if request.pattern is not None:
                content["subscription"] = _check_access(identity, request.pattern, explanation)
        if request.client:
            content["client"] = await self._delivery_fates.find_fates(
                request.client, lambda query: self._explain(query, event, shapes=False)
            )
            on_event = on_event or self._explain(_ANY_QUERY, event, shapes=False).event
        return content, on_event

    def _explain(self, query: Query, event: _Event, *, shapes: bool) -> Explanation:
        if event.refusal is None:
            explanation: Explanation = self._matcher.explain(
                query, event.document, event.variants, shapes=shapes
            )
            return explanation
        explanation = self._matcher.explain(query, None, shapes=shapes)
        return attrs.evolve(explanation, event=EventExplanation(refused=event.refusal.to_wire()))


#: Content, and the explanation of the event.
_Answer: TypeAlias = tuple[dict[str, Any], EventExplanation | None]


@attrs.frozen
class _Event:
    """`refusal` is set if its DTD was not found."""

    document: bytes | None
    variants: Variants
    refusal: BrokerError | None


def _apply_network_verdicts(content: dict[str, Any], identity: Identity) -> None:
    """Make the verdicts of this node's subscriptions agree with those of the network."""
    network, client = content["network"], content["client"]
    if client is None:
        return
    nodes = () if network is None else network["nodes"]
    own = next((node for node in nodes if node["node"] == network["here"]), None)
    if not identity.administer:
        # `accepted` is found by the EventId alone; it must not reveal another event with that id.
        has_it = own is not None and own["verdict"] in LOGGED_VERDICTS
        client["accepted"] = None if network is None else has_it
        for each in (client, *nodes):
            for row in each["subscriptions"]:
                _drop_operators_figures(row)
    found = () if own is None else own["subscriptions"]
    rows = {row.get("number", row.get("durable")): row for row in found}
    for each in client["subscriptions"]:
        row = rows.get(each.get("number", each.get("durable")))
        if row is not None:
            each |= {"verdict": row["verdict"], "reason": row["reason"]}


def _drop_operators_figures(row: dict[str, Any]) -> None:
    drop_operators_figures(row)
    # The text may have such a figure.
    row["reason"] = _REASONS_WITHOUT_FIGURES.get(row.get("verdict", ""), row.get("reason", ""))


def _check_access(
    identity: Identity, pattern: StreamPattern, explanation: Explanation
) -> dict[str, Any]:
    allowed = identity.rights.may_subscribe(pattern)
    result: dict[str, Any] = {"pattern": pattern.text, "allowed": allowed}
    event = explanation.event
    if event is not None and event.refused is None:
        result["stream"] = pattern.matches(event.stream)
        result["cleared"] = identity.is_cleared(SecurityLevel(event.security_level))
    return result


def _check_size(document: bytes) -> None:
    if len(document) > MAX_EVENT_BYTES and document.count(b"<") + document.count(b"=") > MAX_MARKUP:
        raise TooLarge(
            f"an event of {len(document)} bytes with so many tags and attributes is not explained "
            f"by a node, at most {MAX_EVENT_BYTES} are; explain it offline"
        )


def _parse_namespaces(text: str) -> dict[str, str]:
    """Return prefixes from a JSON object; raises `BadQuery`."""
    try:
        bindings = json.loads(text)
    except (ValueError, RecursionError):
        bindings = None
    if not isinstance(bindings, dict) or not all(isinstance(u, str) for u in bindings.values()):
        raise BadQuery("the namespaces are not a JSON object of prefix and URI")
    return bindings
