"""Fate of one event at each node of the network, for `explain` (N7).

An EventId alone reveals nothing: the answer needs the event's bytes and the right to read it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NotRequired, Protocol, TypedDict

import attrs

from broker.errors import ProtocolError
from broker.event.envelope import SecurityLevel
from broker.event.event_id import EventId
from broker.event.place import Mark
from broker.event.stream import StreamPattern
from broker.identity import Identity
from broker.matching.explain.explanation import EventExplanation
from broker.tracing.node_trace import (
    TRACE_QUESTION,
    EventPlace,
    FlowStack,
    NodeTrace,
    TraceQuestion,
)
from broker.wire.codec import Count, Schema, WireMark

#: The node has the event in its log.
LOGGED_VERDICTS: Final = frozenset({"origin", "logged", "withheld"})
#: So its subscriptions get it.
_DELIVERING_VERDICTS: Final = frozenset({"origin", "logged"})
#: The subscription matches the event.
_DELIVERABLE_VERDICTS: Final = frozenset(
    {"delivered", "unconfirmed", "catching-up", "paused", "away", "dropped", "gone"}
)
_REASONS: Final = {
    "origin": "it was published here",
    "logged": "it is in this node's log",
    "withheld": "it was published here, and its stack has not yet decided its place in the order",
    "filtered": "no subscription at this node matches it",
    "denied": "no route to this node is cleared for its security level",
    "missing": "it has not arrived yet, nor have later events of its origin",
    "passed-over": "a subscription here matches it, but it was not logged when it passed: a "
    "subscription that was elsewhere recovers it, or gets a gap",
    "unknown": "this node may not see the event, or has no DTD of its type",
}


class _Subscriptions(TypedDict):
    subscriptions: list[dict[str, Any]]
    left_out: NotRequired[Count]


class _Answer(TypedDict, total=False):
    """See `NodeTrace.trace_event`."""

    place: EventPlace | None
    is_origin: bool
    covered: WireMark | None
    stack: FlowStack
    withheld: bool
    wanted_here: bool
    onward: list[tuple[str, bool]]
    partly: bool
    client: _Subscriptions | None


_ANSWER: Final = Schema[_Answer](_Answer, "answer about an event")


class GatheredAnswers(Protocol):
    @property
    def answers(self) -> Mapping[str, bytes]: ...
    @property
    def silent(self) -> Sequence[str]: ...


class OtherNodes(Protocol):
    """`broker.cluster.network_question.NetworkQuestions`."""

    @property
    def own_address(self) -> str:
        """Address of this node; empty without a cluster."""

    async def ask_all_nodes(self, what: str, content: bytes, rank: int = 0) -> GatheredAnswers:
        """Ask all nodes over links that are cleared for `rank`."""


@attrs.frozen
class _NoAnswers:
    answers: Mapping[str, bytes] = attrs.field(factory=dict)
    silent: Sequence[str] = ()


class NoOtherNodes:
    """Used without a network."""

    own_address = ""

    async def ask_all_nodes(self, what: str, content: bytes, rank: int = 0) -> GatheredAnswers:
        return _NoAnswers()


class NetworkTrace:
    """Asks all nodes about an event, and merges their answers."""

    def __init__(self, trace: NodeTrace, others: OtherNodes, name: str) -> None:
        """`name` is this node's name without a cluster."""
        self._trace = trace
        self._others = others
        self._name = name

    async def trace_event(
        self,
        identity: Identity,
        event: EventExplanation,
        document: bytes,
        client: str,
        *,
        here: bool,
    ) -> dict[str, Any] | None:
        """Return `known`, `place`, and `nodes` with their verdicts; `silent` nodes, and nodes that
        searched their log `partly`. With `here` only this node is asked.

        A node has the `stack` of the event's flow, if that is not the default one. `stack` is that
        of an unknown event at this node.

        Returns None if the document could not have been published here.
        """
        if event.refused is not None:
            return None
        level = SecurityLevel(event.security_level)
        own = self._others.own_address or self._name
        answer: dict[str, Any] = {"known": None, "place": None, "here": own, "nodes": []}
        answer |= {"silent": [], "partly": []}
        if not _can_read(identity, event.stream, level):
            return answer
        others: OtherNodes = NoOtherNodes() if here else self._others
        numbers = event.timestamp, event.sequence_number, event.incarnation
        first = TraceQuestion.of(EventId(event.client_id, *numbers), document, client)
        found = {own: await self._trace.trace_event(first)}
        gathered = await others.ask_all_nodes(TRACE_QUESTION, first.encode())
        found |= _decode_answers(gathered.answers)
        place = next((each["place"] for each in found.values() if each.get("place")), None)
        answer |= {"known": place is not None, "silent": sorted(gathered.silent)}
        if place is None:
            answer["partly"] = sorted(node for node, each in found.items() if each.get("partly"))
            if pattern := self._trace.pattern_of_stream(event.stream):
                stack = _shown_stack(self._trace.describe_stack(pattern), identity)
                answer["stack"] = {"pattern": pattern, **stack}
            return answer
        second = first.with_document(document, place)
        second_answers = {own: await self._trace.trace_event(second)}
        gathered = await others.ask_all_nodes(TRACE_QUESTION, second.encode(), level.rank)
        second_answers |= _decode_answers(gathered.answers)
        both = {
            node: _merge_answers(each, second_answers.get(node, {}))
            for node, each in sorted(found.items())
        }
        origin, epoch, offset = place
        answer["place"] = f"{origin}:{epoch}:{offset}"
        onward = _Destinations.of(both)
        answer["nodes"] = [
            _build_node_row(node, each, (epoch, offset), onward, identity)
            for node, each in both.items()
        ]
        return answer


def _can_read(identity: Identity, stream: str, level: SecurityLevel) -> bool:
    if identity.administer:
        return True
    return identity.rights.may_subscribe(StreamPattern.parse(stream)) and identity.is_cleared(level)


def _shown_stack(stack: FlowStack, identity: Identity) -> dict[str, Any]:
    shown: dict[str, Any] = {**stack}
    if stack["error"] and not identity.administer:
        shown["error"] = "stopped"
    return shown


def _decode_answers(answers: Mapping[str, bytes]) -> dict[str, dict[str, Any]]:
    found = {}
    for node, data in answers.items():
        try:
            found[node] = dict(_ANSWER.decode(data))
        except ProtocolError:
            continue
    return found


def _merge_answers(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """A node may have found the event only by its place, or got only the first part."""
    return {**first, **second, "place": first.get("place") or second.get("place")}


@attrs.frozen
class _Destinations:
    """Destinations of the event, from the nodes that have it."""

    interested: tuple[str, ...]
    denied: tuple[str, ...]
    """Nodes without a cleared route; units end with a slash."""

    @classmethod
    def of(cls, found: Mapping[str, Mapping[str, Any]]) -> _Destinations:
        ways = [
            way for each in found.values() if each.get("place") for way in each.get("onward", ())
        ]
        denied = tuple(str(to) for to, cleared in ways if not cleared)
        return cls(tuple(str(to) for to, _ in ways), denied)


def _is_destination(node: str, to: str) -> bool:
    unit = node.rpartition("/")[0]
    return to == node or (to.endswith("/") and f"{unit}.".startswith(f"{to[:-1]}."))


def _find_verdict(node: str, answer: Mapping[str, Any], mark: Mark, onward: _Destinations) -> str:
    if answer.get("place"):
        if answer.get("withheld"):
            return "withheld"
        return "origin" if answer.get("is_origin") else "logged"
    has_match = answer.get("wanted_here")
    if has_match is False:
        return "filtered"
    if any(_is_destination(node, to) for to in onward.denied):
        return "denied"
    if has_match is None:
        # The node did not get the document.
        is_destination = any(_is_destination(node, to) for to in onward.interested)
        return "unknown" if is_destination else "filtered"
    reached = tuple(answer.get("covered") or (0, 0))
    return "missing" if reached < mark else "passed-over"


def _build_node_row(
    node: str,
    answer: Mapping[str, Any],
    mark: Mark,
    onward: _Destinations,
    identity: Identity,
) -> dict[str, Any]:
    verdict, client = _find_verdict(node, answer, mark, onward), answer.get("client") or {}
    reason, subscriptions = _REASONS[verdict], []
    for row in client.get("subscriptions", ()):
        if verdict not in _DELIVERING_VERDICTS and row.get("verdict") in _DELIVERABLE_VERDICTS:
            row = {**row, "verdict": verdict, "reason": reason}
        subscriptions.append(row)
    found = {
        "node": node,
        "verdict": verdict,
        "reason": reason,
        "subscriptions": subscriptions,
        "left_out": client.get("left_out", 0),
    }
    if "stack" in answer:
        found["stack"] = stack = _shown_stack(answer["stack"], identity)
        if verdict == "missing":
            stack["reached"] = "{}:{}".format(*answer.get("covered") or (0, 0))
    return found
